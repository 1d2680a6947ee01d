package conversations

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Service is the conversations of one cell.
type Service struct {
	db     *postgres.DB
	work   *postgres.DB
	clock  clock.Clock
	labels *labels.Service
	events *events.Log
}

// Deps are the dependencies of the service.
type Deps struct {
	DB *postgres.DB
	// Work is the pool of background work.
	Work     *postgres.DB
	Clock    clock.Clock
	Contacts *contacts.Service
	Labels   *labels.Service
	Events   *events.Log
}

// New builds the service. It follows the contacts.
func New(deps Deps) *Service {
	s := &Service{db: deps.DB, work: deps.Work, clock: deps.Clock, labels: deps.Labels, events: deps.Events}
	deps.Contacts.FollowedBy(contacts.Follower{Changed: s.contactsChangedTx, Left: s.contactsLeftTx, Settle: s.settleTx})
	return s
}

// Get returns one conversation.
func (s *Service) Get(ctx context.Context, org orgs.ID, of accounts.Account, id ID) (Conversation, error) {
	conversation, err := conversationByID(ctx, s.db.Of(org), of.ID, id)
	return withLabelsOne(ctx, s.db.Of(org), conversation, notFound(err))
}

// List returns a page of an account's conversations.
func (s *Service) List(
	ctx context.Context, org orgs.ID, of accounts.Account, filter Filter, slice paging.Slice[Position],
) (paging.Page[Conversation, Position], error) {
	scope := s.db.Of(org)
	page, err := listConversations(ctx, scope, of.ID, filter, slice)
	if err != nil {
		return page, err
	}
	page.Items, err = withLabels(ctx, scope, page.Items)
	return page, err
}

// Update sets the status or the assignee. What is so already is not announced.
func (s *Service) Update(
	ctx context.Context, org orgs.ID, of accounts.Account, by audit.Principal, id ID, change Patch,
) (Conversation, error) {
	updated, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Conversation, error) {
		conversation, err := lockConversation(ctx, tx, of.ID, id)
		if err != nil {
			return Conversation{}, notFound(err)
		}
		previous := conversation.AssigneeID
		changed, isClosed, isAssigned := conversation.apply(change, s.clock.Now())
		if !changed {
			return withLabelsOne(ctx, tx, conversation, nil)
		}
		if err := updateConversation(ctx, tx, conversation); err != nil {
			return Conversation{}, err
		}
		var drafts []events.Draft
		if isAssigned {
			drafts = append(drafts, assigned(of, conversation, previous))
		}
		if isClosed {
			drafts = append(drafts, closed(of, conversation, by))
		}
		if err := s.events.RecordTx(ctx, tx, drafts...); err != nil {
			return Conversation{}, err
		}
		conversation, err = conversationByID(ctx, tx, of.ID, conversation.ID) // with the name of who is assigned now
		return withLabelsOne(ctx, tx, conversation, err)
	})
	if postgres.Violates(err, "conversations_org_id_assignee_id_fkey") {
		return Conversation{}, fault.Invalid("assigned_to", "must be the id of a user of the organization, as `GET /me` lists them, or null")
	}
	return updated, err
}

// Label attaches a label of the account's team to a conversation, or detaches it.
func (s *Service) Label(ctx context.Context, org orgs.ID, of accounts.Account, id ID, label labels.ID, attach bool) (LabelResource, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (LabelResource, error) {
		param := "label_id"
		if !attach {
			param = "" // it is in the path
		}
		unknown, err := s.labels.InTeamTx(ctx, tx, of.TeamID, label, param)
		if err != nil {
			return LabelResource{}, err
		}
		conversation, err := lockConversation(ctx, tx, of.ID, id)
		if err != nil {
			return LabelResource{}, notFound(err)
		}
		if unknown != nil {
			return LabelResource{}, unknown
		}
		changed, err := labelConversation(ctx, tx, of.ID, conversation.ID, label, attach)
		if err == nil && changed {
			conversation.advance(s.clock.Now())
			err = updateConversation(ctx, tx, conversation)
		}
		return LabelResource{ConversationID: conversation.ID, LabelID: label, Attached: attach}, err
	})
}

func notFound(err error) error { return postgres.NotFound(err, "conversation", "") }
