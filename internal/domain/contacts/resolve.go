package contacts

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts/identity"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// ResolveTx finds the contacts of sightings, in their order. It makes contacts that are missing
// (of a sighting with Known it returns a contact without an id instead), updates identifiers and merges
// contacts that turn out to be one person. Where nothing changes it runs one statement and
// locks nothing. Call it once in a transaction, before anything that locks: keys come before contacts, and contacts before conversations.
func (s *Service) ResolveTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, sightings []Sighting) ([]Contact, error) {
	held := locks{keys: map[string]bool{}, contacts: map[ID]bool{}}
	for range 4 {
		b, err := s.read(ctx, tx, of, sightings)
		if err != nil {
			return nil, err
		}
		seen := b.apply(sightings)
		change := b.change()
		if !change.empty() {
			if lacking := held.add(change); !lacking.empty() {
				if err := lacking.takeTx(ctx, tx, of.ID); err != nil {
					return nil, err
				}
				continue // what was read before the locks may have changed
			}
			if err := s.writeTx(ctx, tx, of, change); err != nil {
				return nil, err
			}
		}
		return postgres.Each(seen, func(p *person) (found Contact) {
			if p != nil {
				found = p.Contact
			}
			return found
		}), nil
	}
	return nil, postgres.ErrAgain
}

// Look finds the contacts of sightings, in their order, and changes nothing. It returns nil for a
// sighting of nobody known.
func (s *Service) Look(ctx context.Context, scope postgres.Scope, of accounts.Account, sightings []Sighting) ([]*Contact, error) {
	b, err := s.read(ctx, scope, of, sightings)
	if err != nil {
		return nil, err
	}
	return postgres.Each(sightings, func(sighting Sighting) *Contact {
		for _, key := range sighting.Keys() {
			owner, known, current := b.resolver.Owner(key)
			if contact, stored := b.stored[owner]; known && current && stored {
				return &contact
			}
		}
		return nil
	}), nil
}

// person is a contact while sightings are applied.
type person struct {
	Contact

	// before is the contact as it was read; nil when it is new.
	before *Contact
	// into is the contact that this one was merged into.
	into *person
	// merged tells whether others were merged into this one.
	merged bool
	// reason and previous are what contact.identity_updated tells of the change.
	reason   string
	previous func() (Identity, bool)
	// filled are the fields that contact.updated tells.
	filled changed
}

func (p *person) made() bool { return p.before == nil }

// last is the contact at the end of all merges.
func (p *person) last() *person {
	for p.into != nil {
		p = p.into
	}
	return p
}

// batch is the contacts that some sightings are about.
type batch struct {
	resolver *identity.Resolver
	account  accounts.ID
	now      time.Time
	stored   map[ID]Contact
	people   []*person
}

// read reads the contacts that the sightings are about, with all keys that they have.
func (s *Service) read(ctx context.Context, scope postgres.Scope, of accounts.Account, sightings []Sighting) (*batch, error) {
	now := s.clock.Now()
	b := &batch{resolver: identity.NewResolver(now), account: of.ID, now: now, stored: map[ID]Contact{}}
	var keys []string
	for _, sighting := range sightings {
		keys = append(keys, sighting.Keys()...)
	}
	known, err := contactsAround(ctx, scope, of.ID, keys)
	var rows []identity.Key
	for _, one := range known {
		b.stored[one.ID] = one.Contact
		b.resolver.Load(one.ID, one.Identity)
		rows = append(rows, one.keys()...)
	}
	b.resolver.LoadKeys(rows)
	return b, err
}

// apply decides which contact each sighting is about, in memory, and returns them.
func (b *batch) apply(sightings []Sighting) []*person {
	found := postgres.Each(sightings, b.resolver.Apply)
	byID := make(map[ID]*person, len(b.resolver.People))
	for _, p := range b.resolver.People {
		one := &person{previous: p.Previous, reason: p.Reason}
		one.Contact = Contact{ID: p.ID, AccountID: b.account, Marketing: Unknown, UpdatedAt: b.now}
		if stored, known := b.stored[p.ID]; known {
			one.Contact, one.before = stored, &stored
		}
		one.Identity, one.merged, byID[p.ID] = p.Identity, len(p.Merged) > 0, one
		b.people = append(b.people, one)
	}
	for _, p := range b.resolver.People {
		if p.Into != nil {
			byID[p.ID].into = byID[p.Into.ID]
			continue
		}
		for _, other := range p.Merged {
			byID[p.ID].unite(byID[other.ID])
		}
	}
	for i, s := range sightings {
		if p := found[i]; p != nil && (!s.Addressed || p.New()) {
			byID[p.Last().ID].fillName(s.Name)
		}
		if p := found[i]; p != nil && s.Marketing != "" {
			byID[p.Last().ID].choose(Marketing(s.Marketing), s.Source, s.At)
		}
	}
	return postgres.Each(found, func(p *identity.Person) *person {
		if p == nil {
			return nil
		}
		return byID[p.Last().ID]
	})
}

// unite fills what the contact lacks from one that was merged into it. The later choice about
// marketing counts.
func (p *person) unite(other *person) {
	for _, field := range []struct {
		name       string
		own, other **string
	}{{fieldName, &p.Name, &other.Name}, {fieldEmail, &p.Email, &other.Email}} {
		if *field.own == nil && *field.other != nil {
			*field.own = *field.other
			p.fill(field.name)
		}
	}
	if p.Metadata == nil && other.Metadata != nil {
		p.Metadata = other.Metadata
		p.fill(fieldMetadata)
	}
	if other.MarketingAt != nil && (p.MarketingAt == nil || other.MarketingAt.After(*p.MarketingAt)) {
		p.Marketing, p.MarketingAt, p.MarketingSource = other.Marketing, other.MarketingAt, other.MarketingSource
	}
}

func (p *person) fill(field string) {
	if !slices.Contains(p.filled, field) {
		p.filled = append(p.filled, field)
	}
}

const maxName = 200

// fillName fills an empty name with that of the person's profile.
func (p *person) fillName(name string) {
	name = strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(name, "\x00", ""), "\ufffd"))
	if p.Name != nil || name == "" {
		return
	}
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName])
	}
	p.Name = &name
	p.fill(fieldName)
}

// change is what is to be written.
type change struct {
	made    []*person
	changed []*person
	joined  []*person
	keys    []identity.Key
	// ids are the contacts that must be locked for it.
	ids []ID
}

func (c *change) empty() bool { return len(c.made)+len(c.changed)+len(c.joined)+len(c.keys) == 0 }

// change compares the contacts with what was read.
func (b *batch) change() (c change) {
	c.keys, c.ids = b.resolver.ChangedKeys()
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
	return c
}

func (p *person) differs() bool {
	before := *p.before
	return len(differing(before.Identity, p.Identity)) > 0 || !same(before.Name, p.Name) || !same(before.Email, p.Email) ||
		!bytes.Equal(before.Metadata, p.Metadata) || before.Marketing != p.Marketing || !same(before.MarketingSource, p.MarketingSource) ||
		!same(before.MarketingAt, p.MarketingAt) || p.merged
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
	for _, row := range c.keys {
		if !l.keys[row.Key] {
			l.keys[row.Key], lacking.keys[row.Key] = true, true
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
	return lockContacts(ctx, tx, slices.Collect(maps.Keys(l.contacts)), toChange)
}

// writeTx stores a change and records its events.
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
	return postgres.Each(people, func(p *person) Contact { return p.Contact })
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
