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
	places, find, files := make([]int, 0, len(drafts)), s.findOnceTx(ctx, tx, from), once(s.libraryOf(ctx, tx, from))
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

// prepared is a draft after the checks that need no contact.
type prepared struct {
	Draft

	number   string
	category *string
	// template is the number's own; nil if the content has none, or an unknown one.
	template *templates.Template
	sighting contacts.Sighting
	// files are the library files of the content.
	files []library.File
	// refusals are why the draft cannot be sent, in the order of the checks.
	refusals []*fault.Error
}

// findTemplate finds a template of the number.
type findTemplate func(name, language string) (templates.Template, error)

func (s *Service) prepare(ctx context.Context, org orgs.ID, from accounts.Account, draft Draft) (*prepared, error) {
	return s.prepareWith(from, draft, s.findIn(ctx, org, from), s.libraryOf(ctx, s.db.Of(org), from))
}

func (s *Service) findIn(ctx context.Context, org orgs.ID, from accounts.Account) findTemplate {
	return func(name, language string) (templates.Template, error) {
		return s.templates.Find(ctx, org, from, name, language)
	}
}

// findOnceTx reads each template once, because most of many drafts have the same.
func (s *Service) findOnceTx(ctx context.Context, tx *postgres.Tx, from accounts.Account) findTemplate {
	type found struct {
		template templates.Template
		err      error
	}
	known := map[[2]string]found{}
	return func(name, language string) (templates.Template, error) {
		key := [2]string{name, language}
		one, asked := known[key]
		if !asked {
			one.template, one.err = s.templates.FindTx(ctx, tx, from, name, language)
			known[key] = one
		}
		return one.template, one.err
	}
}

// prepareWith answers the first refusal.
func (s *Service) prepareWith(from accounts.Account, draft Draft, find findTemplate, files fileFinder) (*prepared, error) {
	one := &prepared{Draft: draft}
	if err := s.check(from, one, find, files); err != nil {
		return nil, err
	}
	if len(one.refusals) > 0 {
		return nil, one.refusals[0]
	}
	return one, nil
}

// check makes the pre-send checks in the decided order, up to that of quota. It makes all of them: a
// send answers the first refusal, and Validate all.
func (s *Service) check(from accounts.Account, one *prepared, find findTemplate, files fileFinder) error {
	// A body whose recipient cannot be read has that fault already.
	if one.To != "" || !one.faulty("to", "recipient") {
		one.refuse(one.address())
	}
	now := s.clock.Now()
	if one.Content.Template == nil {
		one.refuse(refusedByNumber(from, one.Content.Type, nil, now)...)
	} else if err := checkTemplate(from, one, find, now); err != nil {
		return err
	}
	return one.attach(files)
}

// definition is a template as messages must fit it.
func definition(found templates.Template) content.TemplateDefinition {
	return content.TemplateDefinition{
		Name: found.Name, Language: found.Language, Category: valueOf(found.Category), ParameterFormat: valueOf(found.ParameterFormat),
		Components: found.Components,
	}
}

func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// checkTemplate checks a template against the number's own. Whether the number may send it at all
// depends on its category, so that it is read first; the refusals keep their order.
func checkTemplate(from accounts.Account, one *prepared, find findTemplate, now time.Time) error {
	found, err := find(one.Content.Template.Name, one.Content.Template.Language)
	unknown := fault.Of(err) == fault.ResourceNotFound
	if err != nil && !unknown {
		return err
	}
	one.category = found.Category
	one.refuse(refusedByNumber(from, provider.TypeTemplate, one.category, now)...)
	if unknown {
		one.refuse(content.UnknownTemplate(one.Content.Template.Name, one.Content.Template.Language))
		return nil
	}
	one.template = &found
	if one.Content.Object == nil { // it has faults of its own
		return nil
	}
	fitted, faults := one.Content.Against(definition(found))
	if len(faults) == 0 {
		one.Content = fitted
	}
	one.refuse(faults...)
	return nil
}

// address reads the recipient.
func (p *prepared) address() *fault.Error {
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
	p.sighting.Addressed = true
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
		known, err := s.recipients(ctx, tx, from, asked)
		if err != nil {
			return nil, nil, err
		}
		for i, place := range places {
			answers[place].Refusal = first(refusedByRecipient(known[i], terms.RequireOptIn))
		}
	}
	for i := range drafts {
		if answers[i].Refusal == nil {
			accepted = append(accepted, i)
		}
	}
	return answers, accepted, nil
}

// recipients is what is known of the people that sightings are about.
func (s *Service) recipients(
	ctx context.Context, scope postgres.Scope, from accounts.Account, sightings []contacts.Sighting,
) ([]recipient, error) {
	known, err := s.contacts.Look(ctx, scope, from, sightings)
	if err != nil {
		return nil, err
	}
	var asked []contacts.ID
	for _, contact := range known {
		if contact != nil {
			asked = append(asked, contact.ID)
		}
	}
	wrote := map[contacts.ID]time.Time{}
	if len(asked) > 0 {
		if wrote, err = s.conversations.LastInbound(ctx, scope, asked); err != nil {
			return nil, err
		}
	}
	return postgres.Each(known, func(contact *contacts.Contact) recipient {
		if contact == nil {
			return recipient{Marketing: contacts.Unknown}
		}
		at, ever := wrote[contact.ID]
		return recipient{Marketing: contact.Marketing, Wrote: ever, WroteAt: at, Number: contact.PhoneNumber}
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
)

// priorityOf puts answers and authentication codes before everything else.
func priorityOf(m Message, thread conversations.Thread, now time.Time) int {
	if m.Category != nil && *m.Category == authentication {
		return firstClass
	}
	if isMarketing(m.Type, m.Category) || thread.LastInboundAt == nil || !inWindow(*thread.LastInboundAt, now) {
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
