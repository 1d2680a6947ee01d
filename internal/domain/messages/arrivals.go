package messages

import (
	"context"
	"maps"
	"slices"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// Arrivals applies the items of one batch of callbacks that concern messages and people. It has two
// steps, PeopleTx and MessagesTx, because contacts and conversations are locked before templates and
// accounts, and those before messages (ARCHITECTURE.md, lock order).
type Arrivals struct {
	s        *Service
	byNumber map[string]*batch
}

// Arrivals returns an empty Arrivals; make one for each batch of callbacks.
func (s *Service) Arrivals() *Arrivals { return &Arrivals{s: s, byNumber: map[string]*batch{}} }

// batch is what arrived for one number.
type batch struct {
	s       *Service
	account accounts.Account
	// said are messages of contacts and, from the phone app, of the business.
	said []*arrival
	// amended are messages that their author changed or deleted.
	amended []*amendment
	// early are revocations whose message is not known yet.
	early []*amendment
	// notices are sightings from changes of identity, preferences those from marketing preferences.
	notices     []contacts.Sighting
	preferences []contacts.Sighting
	statuses    []*notified
}

// PeopleTx is the first step: it resolves the contacts of all items, stores their choices about marketing, and updates
// the conversations of new messages. It returns the items that do not concern messages or people.
func (a *Arrivals) PeopleTx(ctx context.Context, tx *postgres.Tx, items []callbacks.Inbound) (left []callbacks.Inbound, err error) {
	for _, item := range items {
		if !a.add(ctx, tx, item) {
			left = append(left, item)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(a.byNumber)) {
		one := a.byNumber[number]
		one.account, err = a.s.accounts.FindTx(ctx, tx, number)
		if fault.Of(err) == fault.ResourceNotFound {
			delete(a.byNumber, number) // disconnected meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := one.peopleTx(ctx, tx); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// MessagesTx is the second step: it writes the messages, merges statuses and records events. It takes
// no items: those of its batch are known from the first step.
func (a *Arrivals) MessagesTx(ctx context.Context, tx *postgres.Tx, items []callbacks.Inbound) (left []callbacks.Inbound, err error) {
	for _, number := range slices.Sorted(maps.Keys(a.byNumber)) {
		if err := a.byNumber[number].messagesTx(ctx, tx); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// add sorts an item into the batch of its number; false for items that other consumers know.
func (a *Arrivals) add(ctx context.Context, tx *postgres.Tx, item callbacks.Inbound) bool {
	if item.NumberID == "" {
		return false
	}
	of := a.byNumber[item.NumberID]
	if of == nil {
		of = &batch{s: a.s}
		a.byNumber[item.NumberID] = of
	}
	switch it := item.Item.(type) {
	case provider.Inbound:
		if it.GroupID != "" || it.Historic {
			a.drop(ctx, tx, item)
			return true
		}
		return of.add(of.received(item, it))
	case provider.Echo:
		if it.Historic {
			a.drop(ctx, tx, item)
			return true
		}
		return of.add(of.echoed(item, it))
	case provider.Edit:
		if it.GroupID != "" || it.Historic {
			a.drop(ctx, tx, item)
			return true
		}
		of.amended = append(of.amended, &amendment{Inbound: item, edit: &it})
	case provider.Revoke:
		if it.GroupID != "" || it.Historic {
			a.drop(ctx, tx, item)
			return true
		}
		of.amended = append(of.amended, &amendment{Inbound: item, revoke: &it})
	case provider.IdentityChange:
		of.addIdentityChange(it)
	case provider.Preference:
		of.addPreference(it)
	case provider.Status:
		of.statuses = append(of.statuses, &notified{Inbound: item, status: it})
	case provider.History, provider.PhoneAppContact:
		a.drop(ctx, tx, item)
	case provider.Trouble:
		a.s.logger.WarnContext(ctx, "messages.provider_trouble", "org", tx.Org(), "number", item.NumberID, "error", it.Error)
	default:
		return false
	}
	return true
}

// add adds a message; false if it names no person.
func (b *batch) add(one *arrival) bool {
	if len(one.sighting.Keys()) == 0 {
		return false
	}
	b.said = append(b.said, one)
	return true
}

// drop counts an item that is not stored: history and address books, which are not asked for, and messages
// to groups.
func (a *Arrivals) drop(ctx context.Context, tx *postgres.Tx, item callbacks.Inbound) {
	a.s.logger.InfoContext(ctx, "messages.item_dropped", "org", tx.Org(), "number", item.NumberID, "field", item.Field)
}

// peopleTx finds out which messages are new, and whose they are.
func (b *batch) peopleTx(ctx context.Context, tx *postgres.Tx) error {
	if err := b.onlyNewTx(ctx, tx); err != nil {
		return err
	}
	if err := b.resolveTx(ctx, tx); err != nil {
		return err
	}
	return b.threadsTx(ctx, tx)
}

// onlyNewTx leaves out the messages and amendments that are stored already, or were erased with their contact, and the preferences
// that were applied already. An edit whose original is unknown, or whose content the provider withholds, becomes a message of its
// own. A revocation whose original is unknown waits for it.
func (b *batch) onlyNewTx(ctx context.Context, tx *postgres.Tx) error {
	asked := b.preferenceIDs()
	if len(b.said)+len(b.amended)+len(asked) == 0 {
		return nil
	}
	for _, one := range b.said {
		asked = append(asked, *one.message.ProviderID)
	}
	for _, one := range b.amended {
		asked = append(asked, one.ids()...)
	}
	known, erased, err := arrivedBefore(ctx, tx, asked)
	if err != nil {
		return err
	}
	b.preferences = slices.DeleteFunc(b.preferences, func(one contacts.Sighting) bool { return erased[b.preferenceID(one)] })
	seen := maps.Clone(erased)
	isNew := func(id string) bool {
		_, stored := known[id]
		again := seen[id]
		seen[id] = true
		return !stored && !again
	}
	b.said = slices.DeleteFunc(b.said, func(one *arrival) bool { return !isNew(*one.message.ProviderID) })
	inBatch := map[string]*arrival{}
	for _, one := range b.said {
		inBatch[*one.message.ProviderID] = one
	}
	var kept []*amendment
	for _, one := range b.amended {
		if erased[one.original()] || one.edit != nil && !isNew(one.edit.ID) {
			continue
		}
		original, stored := known[one.original()]
		if arrived := inBatch[one.original()]; arrived != nil {
			original, stored = arrived.message.ID, true
		}
		switch {
		case one.edit != nil && (!stored || len(one.edit.Content) == 0):
			if said := b.editAlone(one); said != nil && !b.add(said) {
				b.s.logger.InfoContext(ctx, "messages.edit_without_contact", "org", tx.Org(), "account", b.account.ID)
			}
		case stored:
			one.message = original
			kept = append(kept, one)
		default:
			b.early = append(b.early, one)
		}
	}
	b.amended = kept
	return nil
}

// messagesTx writes everything, in the order of locks.
func (b *batch) messagesTx(ctx context.Context, tx *postgres.Tx) error {
	if err := b.s.applyEffectsTx(ctx, tx, b.account.ID, nil, b.aboutNumber()); err != nil {
		return err
	}
	if err := insertArrivals(ctx, tx, b.account.ID, postgres.Each(b.said, func(one *arrival) Message { return one.message })); err != nil {
		return err
	}
	drafts, err := b.amendTx(ctx, tx)
	if err != nil {
		return err
	}
	if err := b.readOnPhoneTx(ctx, tx); err != nil {
		return err
	}
	if err := lockFoundTx(ctx, tx, b.account.ID, b.statuses); err != nil {
		return err
	}
	book := newBook(b.s, b.account)
	book.drafts, book.preferences = drafts, b.preferenceIDs()
	if err := b.announceTx(ctx, tx, book); err != nil {
		return err
	}
	if err := book.applyAll(b.statuses, book.park); err != nil {
		return err
	}
	if err := book.parkRevocations(b.early); err != nil {
		return err
	}
	return book.writeTx(ctx, tx)
}
