package messages

import (
	"context"
	"log/slog"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/library"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/quota"
	"github.com/parley-chat/parley/internal/domain/templates"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// Service is the messages of one cell.
type Service struct {
	db, work      *postgres.DB
	clock         clock.Clock
	lanes         *lanes.Lanes
	orgs          *orgs.Service
	accounts      *accounts.Service
	templates     *templates.Service
	contacts      *contacts.Service
	conversations *conversations.Service
	callbacks     *callbacks.Service
	media         *media.Service
	library       *library.Service
	events        *events.Log
	quota         *quota.Service
	provider      provider.Port
	logger        *slog.Logger
	// echoWait is how long an attempt with an unknown result waits for its callback.
	echoWait time.Duration
	minutes  minutes
}

// Deps are the dependencies of the service.
type Deps struct {
	// DB is the pool of requests, Work that of background work.
	DB, Work      *postgres.DB
	Clock         clock.Clock
	Lanes         *lanes.Lanes
	Orgs          *orgs.Service
	Accounts      *accounts.Service
	Templates     *templates.Service
	Contacts      *contacts.Service
	Conversations *conversations.Service
	Callbacks     *callbacks.Service
	Media         *media.Service
	Library       *library.Service
	Events        *events.Log
	Quota         *quota.Service
	Provider      provider.Port
	Logger        *slog.Logger
	// EchoWait is PARLEY_SEND_ECHO_WAIT. Default: 120 s.
	EchoWait time.Duration
}

const defaultEchoWait = 2 * time.Minute

// New builds the service.
func New(deps Deps) *Service {
	s := &Service{
		db: deps.DB, work: deps.Work, clock: deps.Clock, lanes: deps.Lanes, orgs: deps.Orgs, accounts: deps.Accounts,
		templates: deps.Templates, contacts: deps.Contacts, conversations: deps.Conversations, callbacks: deps.Callbacks,
		media: deps.Media, library: deps.Library,
		events: deps.Events, quota: deps.Quota, provider: deps.Provider, logger: deps.Logger, echoWait: deps.EchoWait,
	}
	if s.echoWait == 0 {
		s.echoWait = defaultEchoWait
	}
	lanes.Register(s.lanes, s.kind())
	s.media.OwnedBy(media.Owner{Lock: s.lockTx, Files: s.filesTx, Sends: s.uploadedTx})
	s.contacts.FollowedBy(contacts.Follower{Settle: s.contactLeftTx})
	return s
}

// Get returns one message of a number.
func (s *Service) Get(ctx context.Context, org orgs.ID, of accounts.Account, id ID) (Message, error) {
	message, err := messageByID(ctx, s.db.Of(org), of.ID, id)
	return message, notFound(err)
}

// List returns a page of a number's messages, newest first.
func (s *Service) List(
	ctx context.Context, org orgs.ID, of accounts.Account, filter Filter, slice paging.Slice[ID],
) (paging.Page[Message, ID], error) {
	return listMessages(ctx, s.db.SteadyOf(org), of.ID, filter, slice)
}

// CountAccepted counts the messages that an organization sent through the API or a broadcast, for the
// recount of its quota.
func (s *Service) CountAccepted(ctx context.Context, org orgs.ID, from, to time.Time) (int64, error) {
	return countAccepted(ctx, s.work.Of(org), from, to)
}

func notFound(err error) error { return postgres.NotFound(err, "message", "") }
