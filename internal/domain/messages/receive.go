package messages

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jsonout"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// arrival is a message that was received, or that the business sent in the phone app.
type arrival struct {
	callbacks.Inbound

	message  Message
	file     *provider.MediaRef
	sighting contacts.Sighting
	thread   conversations.Thread
}

// sightingOf is a person as an item shows it.
func sightingOf(user provider.User, at time.Time) contacts.Sighting {
	return contacts.Sighting{
		At: at, PhoneNumber: user.Phone, BSUID: user.ID, ParentBSUID: user.ParentID, Username: user.Username, Name: user.Name,
	}
}

// timeOrNow is the provider's time of an item, or now if that is missing or in the future.
func (b *batch) timeOrNow(at time.Time) time.Time {
	if now := b.s.clock.Now(); at.IsZero() || at.After(now) {
		return now
	}
	return at
}

// received is a message of a contact.
func (b *batch) received(item callbacks.Inbound, in provider.Inbound) *arrival {
	at := b.timeOrNow(in.At)
	one := &arrival{Inbound: item, sighting: sightingOf(in.From, at), file: in.Media}
	one.message.Said = Said{ID: ids.New[kind](b.s.clock.Now()), Direction: Inbound, Source: FromContact}
	one.message.Status, one.message.Announced = Delivered, announcedReceived
	one.say(in.ID, in.Type, in.Content, in.Unsupported, in.Reaction, in.Reply, at)
	if len(in.Errors) > 0 && in.Type != provider.TypeUnsupported {
		code, words, number := failureOf(in.Errors[0])
		one.message.ErrorCode, one.message.ErrorMessage, one.message.ProviderCode = &code, &words, number
		one.file = nil
	}
	one.attach(b.s.media.Stores())
	return one
}

// echoed is a message that the business sent in the phone app.
func (b *batch) echoed(item callbacks.Inbound, in provider.Echo) *arrival {
	at := b.timeOrNow(in.At)
	one := &arrival{Inbound: item, sighting: sightingOf(in.To, at), file: in.Media}
	one.message.Said = Said{
		ID: ids.New[kind](b.s.clock.Now()), Direction: Outbound, Source: FromApp, ToNumber: orNil(in.To.Phone),
	}
	if in.To.Phone == "" {
		one.message.ToBSUID = orNil(in.To.ID)
	}
	one.message.Status, one.message.Announced = Sent, announcedMessageSent
	one.say(in.ID, in.Type, in.Content, "", in.Reaction, in.Reply, at)
	one.attach(b.s.media.Stores())
	return one
}

// say fills in what was said.
func (one *arrival) say(
	id, kind string, content json.RawMessage, withheld string, reaction *provider.Reaction, reply *provider.Reply, at time.Time,
) {
	m := &one.message
	m.ProviderID, m.SentAt, m.Type, m.Content = &id, &at, kind, content
	if !slices.Contains(receivedTypes, kind) {
		if withheld == "" && kind != provider.TypeUnsupported {
			withheld = kind
		}
		if withheld == "" {
			withheld = "unknown"
		}
		m.Type, m.Content = provider.TypeUnsupported, unsupportedContent(withheld)
	}
	if reaction != nil {
		m.ReactionTarget = &reaction.MessageID
		m.Content, _ = jsonout.Marshal(map[string]string{"message_id": reaction.MessageID, "emoji": reaction.Emoji}) // plain values always encode
	}
	if reply != nil {
		m.ReplyTo = &reply.MessageID
	}
}

// receivedTypes are stored with their content; all others become `unsupported`.
var receivedTypes = []string{
	provider.TypeText, provider.TypeImage, provider.TypeDocument, provider.TypeVideo, provider.TypeAudio, provider.TypeSticker,
	provider.TypeLocation, provider.TypeContacts, provider.TypeInteractive, provider.TypeReaction, provider.TypeButton,
}

func unsupportedContent(kind string) json.RawMessage {
	content, _ := jsonout.Marshal(map[string]string{"type": kind}) // plain values always encode
	return content
}

// attach notes the file of a message, which is fetched later. One that the provider cannot give, or that
// cannot be stored, is failed from the start.
func (one *arrival) attach(stores bool) {
	m := &one.message
	if (*Message).file(m) == nil {
		one.file = nil
		return
	}
	if m.MediaState = new(mediaFailed); one.file == nil {
		return
	}
	m.MediaType = orNil(one.file.MIMEType)
	if !stores {
		one.file = nil
		return
	}
	m.MediaState, m.MediaKey = new(mediaPending), new(media.NewKey())
	m.Announced = 0 // the event waits for the file
}

// The states of a message's file.
const (
	mediaPending = "pending"
	mediaReady   = "ready"
	mediaFailed  = "failed"
)

// addIdentityChange adds a notice that a person has other identifiers now.
func (b *batch) addIdentityChange(in provider.IdentityChange) {
	if in.Reason == provider.IdentitySecurityChange {
		return // the same identifiers on another device
	}
	sighting := sightingOf(in.Current, b.timeOrNow(in.At))
	sighting.Former = &contacts.Former{
		PhoneNumber: in.Previous.Phone, BSUID: in.Previous.ID, ParentBSUID: in.Previous.ParentID, Reason: string(in.Reason),
	}
	sighting.Known = true
	if len(sighting.Keys()) > 0 {
		b.notices = append(b.notices, sighting)
	}
}

// addPreference adds what a person told the provider about marketing messages.
func (b *batch) addPreference(in provider.Preference) {
	wants := map[string]contacts.Marketing{"stop": contacts.OptedOut, "resume": contacts.Unknown, "signup": contacts.OptedIn}[in.Value]
	sighting := sightingOf(in.User, b.timeOrNow(in.At))
	sighting.Marketing, sighting.Source = string(wants), contacts.FromProvider
	if wants != "" && in.Category == "marketing_messages" && len(sighting.Keys()) > 0 {
		b.preferences = append(b.preferences, sighting)
	}
}

// preferenceID identifies a preference of a person to the number, because the provider gives it no id.
func (b *batch) preferenceID(of contacts.Sighting) string {
	return fmt.Sprintf("preference %s %d %s %q", b.account.ID, of.At.UnixMilli(), of.Marketing, of.Keys())
}

func (b *batch) preferenceIDs() []string { return postgres.Each(b.preferences, b.preferenceID) }

// recipients are the sightings of people to whom messages went, where a status says more of them than one
// identifier. They make no contact: a contact that was erased must not come back with a late status.
func (b *batch) recipients() (sightings []contacts.Sighting) {
	for _, one := range b.statuses {
		who := one.status.Recipient
		if who.Phone != "" && who.ID != "" {
			sighting := sightingOf(who, b.timeOrNow(one.status.At))
			sighting.Name, sighting.Known = "", true // only a message of a person fills its name
			sightings = append(sightings, sighting)
		}
	}
	return sightings
}

// resolveTx finds the contacts of all people of the batch at once, and stores their choices about marketing.
func (b *batch) resolveTx(ctx context.Context, tx *postgres.Tx) error {
	if err := b.stopByKeywordTx(ctx, tx); err != nil {
		return err
	}
	stopped, err := b.stoppedTx(ctx, tx)
	if err != nil {
		return err
	}
	sightings := postgres.Each(b.said, func(one *arrival) contacts.Sighting { return one.sighting })
	sightings = slices.Concat(sightings, b.notices, b.preferences, b.recipients(), stopped)
	if len(sightings) == 0 {
		return nil
	}
	people, err := b.s.contacts.ResolveTx(ctx, tx, b.account, sightings)
	if err != nil {
		return err
	}
	for i, one := range b.said {
		one.message.ContactID, one.message.Person = people[i].ID, personOf(people[i])
	}
	return nil
}

// stopByKeywordTx ends marketing messages to contacts that write a word of the organization for this.
func (b *batch) stopByKeywordTx(ctx context.Context, tx *postgres.Tx) error {
	if !slices.ContainsFunc(b.said, func(one *arrival) bool { return one.message.Direction == Inbound }) {
		return nil
	}
	words, err := b.s.orgs.StopKeywordsTx(ctx, tx)
	if err != nil {
		return err
	}
	words = postgres.Each(words, folded)
	for _, one := range b.said {
		if said := one.message.text(); one.message.Direction == Inbound && said != nil && slices.Contains(words, folded(*said)) {
			one.sighting.Marketing, one.sighting.Source = string(contacts.OptedOut), contacts.FromKeyword
		}
	}
	return nil
}

func folded(text string) string { return strings.ToLower(strings.TrimSpace(text)) }

// stoppedTx are the contacts that stopped marketing, as failed statuses of their messages say.
func (b *batch) stoppedTx(ctx context.Context, tx *postgres.Tx) (sightings []contacts.Sighting, err error) {
	var stops []*notified
	for _, one := range b.statuses {
		if slices.ContainsFunc(one.status.Errors, stopsMarketing) {
			stops = append(stops, one)
		}
	}
	found, err := findTx(ctx, tx, stops)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	people, err := contactsOf(ctx, tx, b.account.ID, postgres.Each(found, func(n *notified) ID { return n.message }))
	for _, one := range found {
		who, is := people[one.message]
		sighting := contacts.Sighting{
			At: b.timeOrNow(one.status.At), PhoneNumber: valueOf(who.ContactNumber), BSUID: valueOf(who.ContactBSUID), Addressed: true, Known: true,
			Marketing: string(contacts.OptedOut), Source: contacts.FromProvider,
		}
		if is && len(sighting.Keys()) > 0 {
			sightings = append(sightings, sighting)
		}
	}
	return sightings, err
}

// threadsTx updates the conversations of the new messages.
func (b *batch) threadsTx(ctx context.Context, tx *postgres.Tx) error {
	said := make([]conversations.Message, len(b.said))
	for i, one := range b.said {
		said[i] = conversations.Message{
			ID: one.message.ID.Any(), ContactID: one.message.ContactID, At: *one.message.SentAt,
			Inbound: one.message.Direction == Inbound, Read: one.message.Direction == Outbound,
			Reaction: one.message.Type == provider.TypeReaction,
		}
	}
	threads, err := b.s.conversations.SaidTx(ctx, tx, b.account, said)
	if err != nil {
		return err
	}
	for i, one := range b.said {
		one.thread = threads[i]
		one.message.AccountID, one.message.ConversationID = b.account.ID, threads[i].ID
	}
	b.readInBatch()
	return nil
}

func (m *Message) isAnswer() bool { return m.Direction == Outbound && m.Type != provider.TypeReaction }

// answers returns the answers from the phone app in this batch, by conversation, in the order in which they were sent.
func (b *batch) answers() map[conversations.ID][]int {
	all := map[conversations.ID][]int{}
	for i, one := range b.said {
		if one.message.isAnswer() {
			all[one.message.ConversationID] = append(all[one.message.ConversationID], i)
		}
	}
	for _, of := range all {
		slices.SortStableFunc(of, func(i, j int) int { return b.said[i].message.SentAt.Compare(*b.said[j].message.SentAt) })
	}
	return all
}

// readInBatch marks an inbound message as read by the first later answer from the phone app in the same batch. If both have the
// same second, their order in the batch decides.
func (b *batch) readInBatch() {
	answers := b.answers()
	for i, one := range b.said {
		m := &one.message
		if m.Direction != Inbound {
			continue
		}
		for _, j := range answers[m.ConversationID] {
			if at := b.said[j].message.SentAt; at.After(*m.SentAt) || j > i && at.Equal(*m.SentAt) {
				m.Status, m.ReadAt = Read, at
				break
			}
		}
	}
}

// readOnPhoneTx marks inbound messages of earlier batches as read if they were sent no later than an answer in this batch.
func (b *batch) readOnPhoneTx(ctx context.Context, tx *postgres.Tx) error {
	answers := b.answers()
	for _, id := range slices.SortedFunc(maps.Keys(answers), func(a, b conversations.ID) int { return a.Any().Compare(b.Any()) }) {
		thread := b.said[answers[id][0]].thread
		marked := 0
		for _, i := range answers[id] {
			sentAt := b.said[i].message.SentAt
			some, err := markRead(ctx, tx, id, b.said[0].message.ID, thread.UnreadBefore-marked, sentAt, *sentAt)
			if err != nil {
				return err
			}
			marked += some
		}
		if !thread.ReadLate || marked == 0 {
			continue
		}
		if err := b.s.conversations.UnreadTx(ctx, tx, id, max(0, thread.Unread-marked)); err != nil {
			return err
		}
	}
	return nil
}

func personOf(of contacts.Contact) Person {
	return Person{
		ContactNumber: of.PhoneNumber, ContactBSUID: of.BSUID, ContactParentBSUID: of.ParentBSUID,
		ContactUsername: of.Username, ContactName: of.Name,
	}
}
