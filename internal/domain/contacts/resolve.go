package contacts

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// ResolveTx finds the contacts of people who were seen, in the order of the sightings: it
// makes those that are new, keeps what they are known by up to date and joins those that
// turn out to be one person. Where nothing changes it reads twice and locks nothing. Call
// it once in a transaction, before anything that locks: keys come before contacts, and
// contacts before conversations.
func (s *Service) ResolveTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, sightings []Sighting) ([]Contact, error) {
	held := locks{keys: map[string]bool{}, contacts: map[ID]bool{}}
	for range 4 {
		b, seen, err := s.readTx(ctx, tx, of, sightings)
		if err != nil {
			return nil, err
		}
		change := b.change()
		if change.empty() {
			return contactsOf(seen), nil
		}
		if lacking := held.add(change); !lacking.empty() {
			if err := lacking.takeTx(ctx, tx, of.ID); err != nil {
				return nil, err
			}
			continue // what was read before the locks may have changed
		}
		if err := s.writeTx(ctx, tx, of, change); err != nil {
			return nil, err
		}
		return contactsOf(seen), nil
	}
	return nil, postgres.ErrAgain
}

// readTx applies the sightings to what is known, in memory.
func (s *Service) readTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, sightings []Sighting) (*book, []*person, error) {
	var keys []string
	for _, sighting := range sightings {
		keys = append(keys, sighting.keys()...)
	}
	b := newBook(of.ID, s.clock.Now())
	if err := b.readTx(ctx, tx, keys); err != nil {
		return nil, nil, err
	}
	seen := make([]*person, len(sightings))
	for i, sighting := range sightings {
		seen[i] = b.see(sighting)
	}
	return b, seen, nil
}

// readTx loads the contacts that the keys name, with all keys that they have.
func (b *book) readTx(ctx context.Context, tx *postgres.Tx, keys []string) error {
	rows, err := keysAround(ctx, tx, b.account, keys)
	if err != nil || len(rows) == 0 {
		return err
	}
	var owners []ID
	for _, row := range rows {
		owners = append(owners, row.ContactID)
	}
	known, err := contactsByID(ctx, tx, owners)
	b.load(known, rows)
	return err
}

func contactsOf(seen []*person) []Contact {
	contacts := make([]Contact, len(seen))
	for i, p := range seen {
		contacts[i] = p.last().Contact
	}
	return contacts
}

// last is who the person turned out to be.
func (p *person) last() *person {
	for p.into != nil {
		p = p.into
	}
	return p
}

// change is what sightings change, to be written.
type change struct {
	made    []*person
	changed []*person
	joined  []*person
	keys    []*entry
	// ids are the contacts that must be locked for it.
	ids []ID
}

func (c *change) empty() bool { return len(c.made)+len(c.changed)+len(c.joined)+len(c.keys) == 0 }

// change compares the book with what was read.
func (b *book) change() (c change) {
	for _, p := range b.people {
		switch {
		case p.into != nil && p.made():
		case p.into != nil:
			c.joined = append(c.joined, p)
			c.ids = append(c.ids, p.ID, p.last().ID)
		case p.made():
			c.made = append(c.made, p)
		case p.differs():
			p.advance(b.now)
			c.changed = append(c.changed, p)
			c.ids = append(c.ids, p.ID)
		}
	}
	for _, e := range b.entries {
		if !e.changed() {
			continue
		}
		c.keys = append(c.keys, e)
		if owner := e.owner.last(); !owner.made() {
			c.ids = append(c.ids, owner.ID)
		}
		if e.stored != nil {
			c.ids = append(c.ids, e.stored.ContactID)
		}
	}
	slices.SortFunc(c.keys, func(a, b *entry) int { return strings.Compare(a.key, b.key) })
	return c
}

func (p *person) differs() bool {
	before := *p.before
	return len(differing(before.Identity, p.Identity)) > 0 || !same(before.Name, p.Name) || !same(before.Email, p.Email) ||
		!bytes.Equal(before.Metadata, p.Metadata) || before.Marketing != p.Marketing || !same(before.MarketingSource, p.MarketingSource) ||
		len(p.joined) > 0
}

func (e *entry) changed() bool {
	if e.stored == nil {
		return true
	}
	sameEnd := e.retired == e.stored.RetiredAt || e.retired != nil && e.stored.RetiredAt != nil && e.retired.Equal(*e.stored.RetiredAt)
	return !sameEnd || e.owner.last().ID != e.stored.ContactID || !e.since.Equal(e.stored.Since)
}

// locks are the keys and contacts that a transaction holds.
type locks struct {
	keys     map[string]bool
	contacts map[ID]bool
}

func (l locks) empty() bool { return len(l.keys)+len(l.contacts) == 0 }

// add notes what a change needs and returns what of it is not held yet.
func (l locks) add(c change) (lacking locks) {
	lacking = locks{keys: map[string]bool{}, contacts: map[ID]bool{}}
	for _, e := range c.keys {
		if !l.keys[e.key] {
			l.keys[e.key], lacking.keys[e.key] = true, true
		}
	}
	for _, id := range c.ids {
		if !l.contacts[id] {
			l.contacts[id], lacking.contacts[id] = true, true
		}
	}
	return lacking
}

// takeTx takes the locks in the one order.
func (l locks) takeTx(ctx context.Context, tx *postgres.Tx, of accounts.ID) error {
	if err := lockKeys(ctx, tx, of, l.keys); err != nil {
		return err
	}
	return lockContacts(ctx, tx, l.contacts)
}

// writeTx stores a change and announces it.
func (s *Service) writeTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, c change) error {
	if err := insertContacts(ctx, tx, contactsIn(c.made)); err != nil {
		return err
	}
	if err := updateContacts(ctx, tx, contactsIn(c.changed)); err != nil {
		return err
	}
	if err := putKeys(ctx, tx, of.ID, c.keys); err != nil {
		return err
	}
	var drafts []events.Draft
	for _, p := range c.made {
		drafts = append(drafts, createdEvent(of, p.Contact))
	}
	if err := s.joinTx(ctx, tx, c.joined); err != nil {
		return err
	}
	var shown []ID
	for _, p := range c.changed {
		drafts = append(drafts, p.changeEvents(of)...)
		if !same(p.before.Name, p.Name) || !same(p.before.PhoneNumber, p.PhoneNumber) {
			shown = append(shown, p.ID)
		}
	}
	if err := s.events.RecordTx(ctx, tx, drafts...); err != nil {
		return err
	}
	return s.tellTx(ctx, tx, shown)
}

func contactsIn(people []*person) []Contact {
	contacts := make([]Contact, len(people))
	for i, p := range people {
		contacts[i] = p.Contact
	}
	return contacts
}

// changeEvents are the events of a contact that was there before; none if nothing that is
// announced has changed.
func (p *person) changeEvents(of accounts.Account) (drafts []events.Draft) {
	if previous, told := p.previous(); told {
		drafts = append(drafts, identityUpdatedEvent(of, p.Contact, previous, p.reason))
	}
	if len(p.filled) > 0 {
		drafts = append(drafts, updatedEvent(of, p.Contact, p.filled))
	}
	return drafts
}

// previous is what contact.identity_updated tells that the person was known by. To learn
// an identifier where none was known is no change of identity, unless it made one of two
// contacts.
func (p *person) previous() (previous Identity, told bool) {
	was, is := p.before.Identity, p.Identity
	replaced := func(was, is *string) bool { return was != nil && !same(was, is) }
	if replaced(was.PhoneNumber, is.PhoneNumber) || replaced(was.BSUID, is.BSUID) || replaced(was.ParentBSUID, is.ParentBSUID) {
		return was, true
	}
	for _, other := range p.joined {
		if other.made() {
			continue
		}
		if len(differing(was, is)) > 0 {
			return was, true
		}
		return other.before.Identity, true
	}
	return Identity{}, false
}
