package messages

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/library"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/templates"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/phone"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/requestid"
	"github.com/parley-chat/parley/internal/provider"
)

// Send accepts one message: it is queued when Send returns.
func (s *Service) Send(ctx context.Context, org orgs.ID, from accounts.Account, terms Terms, draft Draft) (Message, error) {
	one, err := s.prepare(ctx, org, from, draft)
	if err != nil {
		return Message{}, err
	}
	reserved, err := s.quota.Reserve(ctx, org, terms.MonthlyLimit, 1)
	if err != nil {
		return Message{}, err
	}
	message, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Message, error) {
		answers, err := s.acceptTx(ctx, tx, from, terms, []*prepared{one})
		if err != nil {
			return Message{}, err
		}
		if answers[0].Refusal != nil {
			return Message{}, answers[0].Refusal
		}
		return answers[0].Message, nil
	})
	if err != nil && !errors.Is(err, postgres.ErrUnanswered) { // the message may be stored
		reserved.GiveBack()
	}
	return message, err
}

// AcceptManyTx is for broadcasts. It accepts drafts of one number in the caller's transaction, and answers each: a message,
// or a refusal. A refused draft leaves nothing behind. The caller has reserved quota for all of
// them, and gives back that of those refused.
func (s *Service) AcceptManyTx(
	ctx context.Context, tx *postgres.Tx, from accounts.Account, terms Terms, drafts []Draft,
) ([]Answer, error) {
	answers, accepted := make([]Answer, len(drafts)), make([]*prepared, 0, len(drafts))
	places, find, files := make([]int, 0, len(drafts)), s.findOnceTx(ctx, tx, from), s.findLibrary(ctx, tx, from)
	for i, draft := range drafts {
		one, err := s.prepareWith(from, draft, find, files)
		if refusal, refused := errors.AsType[*fault.Error](err); refused {
			answers[i].Refusal = refusal
			continue
		}
		if err != nil {
			return nil, err
		}
		accepted, places = append(accepted, one), append(places, i)
	}
	made, err := s.acceptTx(ctx, tx, from, terms, accepted)
	for i, answer := range made {
		answers[places[i]] = answer
	}
	return answers, err
}

// prepared is a draft that passed the checks that need no contact.
type prepared struct {
	Draft

	number   string
	category *string
	sighting contacts.Sighting
	// files are the library files of the content.
	files []library.File
}

// findTemplate finds a template of the number.
type findTemplate func(name, language string) (content.TemplateDefinition, error)

func (s *Service) prepare(ctx context.Context, org orgs.ID, from accounts.Account, draft Draft) (*prepared, error) {
	return s.prepareWith(from, draft, func(name, language string) (content.TemplateDefinition, error) {
		return definition(s.templates.Find(ctx, org, from, name, language))
	}, s.findLibrary(ctx, s.db.Of(org), from))
}

// findOnceTx reads each template once, because most of many drafts have the same.
func (s *Service) findOnceTx(ctx context.Context, tx *postgres.Tx, from accounts.Account) findTemplate {
	type found struct {
		definition content.TemplateDefinition
		err        error
	}
	known := map[[2]string]found{}
	return func(name, language string) (content.TemplateDefinition, error) {
		key := [2]string{name, language}
		one, asked := known[key]
		if !asked {
			one.definition, one.err = definition(s.templates.FindTx(ctx, tx, from, name, language))
			known[key] = one
		}
		return one.definition, one.err
	}
}

// prepareWith makes the pre-send checks in the decided order, up to that of quota.
func (s *Service) prepareWith(from accounts.Account, draft Draft, find findTemplate, files findLibrary) (*prepared, error) {
	one := &prepared{Draft: draft}
	if err := one.address(); err != nil {
		return nil, err
	}
	now := s.clock.Now()
	template := draft.Content.Template
	if template == nil {
		if refusal := refusedByNumber(from, draft.Content.Type, nil, now); refusal != nil {
			return nil, refusal
		}
	} else if err := s.prepareTemplate(from, one, find, now); err != nil {
		return nil, err
	}
	return one, one.attach(files)
}

// definition is a template as messages must fit it.
func definition(found templates.Template, err error) (content.TemplateDefinition, error) {
	if err != nil {
		return content.TemplateDefinition{}, err
	}
	return content.TemplateDefinition{
		Name: found.Name, Language: found.Language, Category: valueOf(found.Category), ParameterFormat: valueOf(found.ParameterFormat),
		Components: found.Components,
	}, nil
}

func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// prepareTemplate checks a template against the number's own. Whether the number may send it at all
// depends on its category, so that it is read first; the refusals keep their order.
func (s *Service) prepareTemplate(from accounts.Account, one *prepared, find findTemplate, now time.Time) error {
	definition, err := find(one.Content.Template.Name, one.Content.Template.Language)
	if err == nil && definition.Category != "" {
		one.category = &definition.Category
	}
	if refusal := refusedByNumber(from, provider.TypeTemplate, one.category, now); refusal != nil {
		return refusal
	}
	if fault.Of(err) == fault.ResourceNotFound {
		return content.UnknownTemplate(one.Content.Template.Name, one.Content.Template.Language)
	}
	if err != nil {
		return err
	}
	one.Content, err = one.Content.Against(definition)
	return err
}

// address reads the recipient.
func (p *prepared) address() error {
	p.sighting = contacts.Sighting{Addressed: true}
	switch {
	case p.To != "":
		number, ok := phone.Parse(p.To)
		if !ok {
			return fault.New(fault.InvalidPhoneNumber, "The field `to` must be a number in E.164, for example +351910000001.").At("to")
		}
		p.number, p.sighting.PhoneNumber = number, number
	case p.Recipient == "":
		return fault.Missing("to")
	case strings.Contains(p.Recipient, ".ENT."):
		p.sighting.ParentBSUID = p.Recipient
	default:
		p.sighting.BSUID = p.Recipient
	}
	return nil
}

// acceptTx writes drafts that were prepared: contacts, conversations, messages and lane rows.
func (s *Service) acceptTx(ctx context.Context, tx *postgres.Tx, from accounts.Account, terms Terms, drafts []*prepared) ([]Answer, error) {
	answers, accepted, err := s.judgeTx(ctx, tx, from, terms, drafts)
	if err != nil || len(accepted) == 0 {
		return answers, err
	}
	now := s.clock.Now()
	people, err := s.contacts.ResolveTx(ctx, tx, from, sightingsOf(accepted, drafts, now))
	if err != nil {
		return nil, err
	}
	said := make([]conversations.Message, len(accepted))
	for i, person := range people {
		said[i] = conversations.Message{
			ID: ids.New[kind](now).Any(), ContactID: person.ID, At: now, Reaction: drafts[accepted[i]].Content.Reaction != nil,
		}
	}
	threads, err := s.conversations.SaidTx(ctx, tx, from, said)
	if err != nil {
		return nil, err
	}
	made := make([]Message, len(accepted))
	for i, at := range accepted {
		made[i] = newMessage(ctx, ids.From[kind](said[i].ID), from, drafts[at], people[i], threads[i])
	}
	if err := insertMessages(ctx, tx, made); err != nil {
		return nil, err
	}
	waiting, err := s.attachTx(ctx, tx, from, accepted, drafts, made)
	if err != nil {
		return nil, err
	}
	for i, message := range made {
		answers[accepted[i]].Message = message
		priority := priorityOf(message, threads[i], now)
		if err := s.queueTx(ctx, tx, from, message, priority, waiting[message.ID]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// judgeTx refuses marketing that its recipient does not want. It returns the places of the drafts
// that are accepted.
func (s *Service) judgeTx(
	ctx context.Context, tx *postgres.Tx, from accounts.Account, terms Terms, drafts []*prepared,
) (answers []Answer, accepted []int, err error) {
	answers = make([]Answer, len(drafts))
	var asked []contacts.Sighting
	var places []int
	for i, draft := range drafts {
		if isMarketing(draft.Content.Type, draft.category) {
			asked, places = append(asked, draft.sighting), append(places, i)
		}
	}
	if len(asked) > 0 {
		known, err := s.recipientsTx(ctx, tx, from, asked)
		if err != nil {
			return nil, nil, err
		}
		for i, place := range places {
			answers[place].Refusal = refusedByRecipient(known[i], terms.RequireOptIn)
		}
	}
	for i := range drafts {
		if answers[i].Refusal == nil {
			accepted = append(accepted, i)
		}
	}
	return answers, accepted, nil
}

// recipientsTx is what is known of the people that sightings are about.
func (s *Service) recipientsTx(
	ctx context.Context, tx *postgres.Tx, from accounts.Account, sightings []contacts.Sighting,
) ([]recipient, error) {
	known, err := s.contacts.LookTx(ctx, tx, from, sightings)
	if err != nil {
		return nil, err
	}
	var asked []contacts.ID
	for _, contact := range known {
		if contact != nil {
			asked = append(asked, contact.ID)
		}
	}
	wrote := map[contacts.ID]bool{}
	if len(asked) > 0 {
		if wrote, err = s.conversations.WroteTx(ctx, tx, asked); err != nil {
			return nil, err
		}
	}
	return postgres.Each(known, func(contact *contacts.Contact) recipient {
		if contact == nil {
			return recipient{Marketing: contacts.Unknown}
		}
		return recipient{Marketing: contact.Marketing, Wrote: wrote[contact.ID]}
	}), nil
}

func sightingsOf(accepted []int, drafts []*prepared, now time.Time) []contacts.Sighting {
	sightings := make([]contacts.Sighting, len(accepted))
	for i, at := range accepted {
		sightings[i] = drafts[at].sighting
		sightings[i].At = now
	}
	return sightings
}

func newMessage(
	ctx context.Context, id ID, from accounts.Account, draft *prepared, to contacts.Contact, thread conversations.Thread,
) Message {
	m := Message{Said: Said{
		ID: id, AccountID: from.ID, ConversationID: thread.ID, ContactID: to.ID, Direction: Outbound,
		Type: draft.Content.Type, Source: draft.Source, SourceID: draft.SourceID, RequestID: requestid.From(ctx),
		ClientReference: orNil(draft.ClientReference), ReplyTo: orNil(draft.ReplyTo), Category: draft.category,
		Content: draft.Content.Object,
	}}
	m.Status = Queued
	m.Person = personOf(to)
	if draft.number != "" {
		m.ToNumber = &draft.number
	} else {
		m.ToBSUID = &draft.Recipient
	}
	if draft.Content.Template != nil {
		m.Body = &draft.Content.Body
	}
	if draft.Content.Reaction != nil {
		m.ReactionTarget = &draft.Content.Reaction.MessageID
	}
	return m
}

// The priorities of the lane of a number.
const (
	firstClass = 0
	bulk       = 1
	// answersWithin is how long after the contact wrote a message counts as an answer.
	answersWithin = 24 * time.Hour
)

// priorityOf puts answers and authentication codes before everything else.
func priorityOf(m Message, thread conversations.Thread, now time.Time) int {
	if m.Category != nil && *m.Category == authentication {
		return firstClass
	}
	if isMarketing(m.Type, m.Category) || thread.LastInboundAt == nil || now.Sub(*thread.LastInboundAt) > answersWithin {
		return bulk
	}
	return firstClass
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
