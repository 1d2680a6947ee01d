package contacts

import (
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/phone"
)

// Sighting is what the provider said of a person at a moment, or what a caller says now.
// At least one of PhoneNumber, BSUID and ParentBSUID is known.
type Sighting struct {
	// At is when it was so, by the provider's clock: sightings arrive in any order.
	At          time.Time
	PhoneNumber string
	BSUID       string
	ParentBSUID string
	Username    string
	// Name is what the person calls themselves. It fills only an empty name.
	Name string
	// Former is set by a notice that the person's identifiers were changed.
	Former *Former
	// Addressed is set by who wants to write to somebody: it finds the person, or makes them,
	// and proves nothing of who they are.
	Addressed bool
}

// Former is what a person was known by before a change, as far as the notice says.
type Former struct {
	PhoneNumber string
	BSUID       string
	ParentBSUID string
	// Reason is the provider's word for the change.
	Reason string
}

// Reasons of contact.identity_updated that are our own; others are the provider's.
const (
	reasonLinked     = "linked"            // two contacts turned out to be one person
	reasonMoved      = "number_changed"    // seen with another number, without a notice
	reasonReassigned = "number_reassigned" // somebody else has the number now
)

// The kinds of keys. BSUIDs and their parents name one person for ever; a number names
// whoever has it.
func numberKey(number string) string { return "n" + phone.Key(number) }
func bsuidKey(bsuid string) string   { return "b" + bsuid }
func parentKey(parent string) string { return "p" + parent }

func isNumber(key string) bool { return key[0] == 'n' }

// strong are the keys by which the sighting proves who the person is.
func (s *Sighting) strong() (keys []string) {
	if s.BSUID != "" {
		keys = append(keys, bsuidKey(s.BSUID))
	}
	if s.ParentBSUID != "" {
		keys = append(keys, parentKey(s.ParentBSUID))
	}
	return keys
}

func (f *Former) strong() []string {
	if f == nil {
		return nil
	}
	return (&Sighting{BSUID: f.BSUID, ParentBSUID: f.ParentBSUID}).strong()
}

// keys are all that the sighting names.
func (s *Sighting) keys() []string {
	keys := append(s.strong(), s.Former.strong()...)
	if s.PhoneNumber != "" {
		keys = append(keys, numberKey(s.PhoneNumber))
	}
	if s.Former != nil && s.Former.PhoneNumber != "" {
		keys = append(keys, numberKey(s.Former.PhoneNumber))
	}
	return keys
}

// entry is a key and whom it names.
type entry struct {
	key     string
	owner   *person
	since   time.Time
	retired *time.Time
	// stored is the entry as it stands in the table; nil when it does not.
	stored *keyRow
}

// retire ends the entry, unless it began later: then the news is old.
func (e *entry) retire(at time.Time) {
	if e.since.After(at) || e.retired != nil && !at.After(*e.retired) {
		return
	}
	e.retired = &at
}

// renew has the entry name its owner again if that was seen after it had ended.
func (e *entry) renew(at time.Time) {
	if e.retired != nil && at.After(*e.retired) {
		e.retired, e.since = nil, at
	}
}

// person is a contact while sightings are applied to it.
type person struct {
	Contact

	// before is the contact as it was read; nil when it is made here.
	before *Contact
	keys   []*entry
	// into is whom this one turned out to be.
	into *person
	// joined are contacts that turned out to be this one.
	joined []*person
	reason string
	filled changed
}

func (p *person) made() bool { return p.before == nil }

// current is the person's number now, of which there is one at most.
func (p *person) current() *entry {
	for _, e := range p.keys {
		if isNumber(e.key) && e.retired == nil {
			return e
		}
	}
	return nil
}

// onlyNumber persons are known by nothing but their number: they are whoever has it.
func (p *person) onlyNumber() bool {
	return !slices.ContainsFunc(p.keys, func(e *entry) bool { return !isNumber(e.key) })
}

// book is what is known of some persons of an account. It decides who is who, without a
// database.
type book struct {
	account accounts.ID
	now     time.Time
	entries map[string]*entry
	people  []*person
}

func newBook(account accounts.ID, now time.Time) *book {
	return &book{account: account, now: now, entries: map[string]*entry{}}
}

// load puts contacts and all their keys into the book.
func (b *book) load(contacts []Contact, keys []keyRow) {
	byID := make(map[ID]*person, len(contacts))
	for _, contact := range contacts {
		before := contact
		p := &person{Contact: contact, before: &before}
		byID[contact.ID] = p
		b.people = append(b.people, p)
	}
	for _, row := range keys {
		if p := byID[row.ContactID]; p != nil {
			b.put(&entry{key: row.Key, owner: p, since: row.Since, retired: row.RetiredAt, stored: &row})
		}
	}
}

func (b *book) put(e *entry) {
	b.entries[e.key] = e
	e.owner.keys = append(e.owner.keys, e)
}

// give has the entry name another person.
func (b *book) give(e *entry, to *person) {
	e.owner.keys = slices.DeleteFunc(e.owner.keys, func(other *entry) bool { return other == e })
	e.owner = to
	to.keys = append(to.keys, e)
}

// see applies a sighting and returns whose it is.
func (b *book) see(s Sighting) *person {
	p := b.whose(&s)
	if p == nil {
		p = &person{Contact: Contact{ID: ids.New[kind](b.now), AccountID: b.account, Marketing: Unknown, UpdatedAt: b.now}}
		b.people = append(b.people, p)
	} else if s.Addressed {
		return p
	}
	b.name(p, &s)
	ended := b.stale(&s)
	b.number(p, &s, ended)
	if ended == nil && s.Username != "" {
		p.Username = new(bare(s.Username))
	}
	p.call(s.Name)
	p.show()
	return p
}

// whose finds the person of a sighting. What names several contacts proves that they are
// one person: they are joined.
func (b *book) whose(s *Sighting) *person {
	var found []*person
	add := func(e *entry) {
		if e != nil && !slices.Contains(found, e.owner) {
			found = append(found, e.owner)
		}
	}
	former := s.Former.strong()
	for _, key := range append(s.strong(), former...) {
		add(b.entries[key])
	}
	var now *person // who is already known by what the person is called now
	if strong := s.strong(); len(strong) > 0 && b.entries[strong[0]] != nil {
		now = b.entries[strong[0]].owner
	}
	if s.Former != nil && len(former) == 0 && s.Former.PhoneNumber != "" {
		if e := b.entries[numberKey(s.Former.PhoneNumber)]; e != nil && e.namedAt(s.At) {
			add(e)
		}
	}
	if s.PhoneNumber != "" {
		if e := b.entries[numberKey(s.PhoneNumber)]; e != nil && b.proves(e, s) {
			add(e)
		}
	}
	return join(found, now)
}

// namedAt tells whether the number named its owner then, as far as is known.
func (e *entry) namedAt(at time.Time) bool {
	return !e.since.After(at) && (e.retired == nil || at.Before(*e.retired))
}

// proves tells whether the number in a sighting shows that its person is the number's
// owner. Alone it does while the owner has it. Beside a stronger key it does only when the
// owner is nobody but whoever has the number.
func (b *book) proves(e *entry, s *Sighting) bool {
	if len(s.strong()) == 0 && s.Former == nil {
		return e.retired == nil || !s.At.After(*e.retired)
	}
	ended := b.stale(s)
	return e.retired == nil && e.owner.onlyNumber() && (ended == nil || !e.since.After(*ended))
}

// stale sightings come from before a change that is known: they tell nothing of now, but
// of the time until the change, which is returned.
func (b *book) stale(s *Sighting) (ended *time.Time) {
	for _, key := range s.strong() {
		if e := b.entries[key]; e != nil && e.retired != nil && !s.At.After(*e.retired) {
			return e.retired
		}
	}
	return nil
}

// join makes one person of several: the contact that was there first. Of two numbers that
// were first seen in the same second, the one of now is the person's.
func join(found []*person, now *person) *person {
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b *person) int {
		if a.made() != b.made() {
			if a.made() {
				return 1
			}
			return -1
		}
		return a.ID.Any().Compare(b.ID.Any())
	})
	first := found[0]
	for _, other := range found[1:] {
		first.absorb(other, other == now)
	}
	return first
}

// absorb takes over all that the other is known by, and what it has and this one has not.
func (p *person) absorb(other *person, now bool) {
	mine, theirs := p.current(), other.current()
	for _, e := range other.keys {
		e.owner = p
	}
	p.keys = append(p.keys, other.keys...)
	if other.keys = nil; mine != nil && theirs != nil {
		if theirs.since.After(mine.since) || now && theirs.since.Equal(mine.since) {
			mine.retired = new(theirs.since)
		} else {
			theirs.retired = new(mine.since)
		}
	}
	for _, field := range []struct {
		name       string
		own, other **string
	}{{fieldName, &p.Name, &other.Name}, {fieldEmail, &p.Email, &other.Email}, {"", &p.Username, &other.Username}} {
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
	if theirs != nil && theirs.retired == nil {
		p.PhoneNumber = other.PhoneNumber
	}
	other.into = p
	p.joined = append(append(p.joined, other), other.joined...)
	p.reason = reasonLinked
}

func (p *person) fill(field string) {
	if field != "" && !slices.Contains(p.filled, field) {
		p.filled = append(p.filled, field)
	}
}

// name has the strong keys of the sighting name the person, and ends those that a notice
// says were changed.
func (b *book) name(p *person, s *Sighting) {
	for _, key := range s.strong() {
		e := b.entries[key]
		if e == nil {
			e = &entry{key: key, owner: p, since: s.At}
			b.put(e)
		}
		e.renew(s.At)
		if s.Former != nil && s.At.After(e.since) {
			e.since = s.At // changed to it then, whatever was before
		}
	}
	if s.Former == nil {
		return
	}
	p.reason = s.Former.Reason
	for _, key := range b.ended(p, s) {
		e := b.entries[key]
		if e == nil {
			e = &entry{key: key, owner: p, since: s.At}
			b.put(e)
		}
		e.retire(s.At)
	}
}

// ended are the strong keys that a notice replaces: those it names, or else those that
// the person has; of a kind that it gives anew.
func (b *book) ended(p *person, s *Sighting) (keys []string) {
	given := s.strong()
	candidates := s.Former.strong()
	if len(candidates) == 0 {
		for _, e := range p.keys {
			if !isNumber(e.key) && e.retired == nil {
				candidates = append(candidates, e.key)
			}
		}
	}
	for _, key := range candidates {
		replaced := slices.ContainsFunc(given, func(other string) bool { return other[0] == key[0] })
		if replaced && !slices.Contains(given, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// number settles whose the sighting's number is. The latest sighting of a number says who
// has it, and the latest sighting of a person which number they have.
func (b *book) number(p *person, s *Sighting, ended *time.Time) {
	if s.PhoneNumber == "" {
		return
	}
	key := numberKey(s.PhoneNumber)
	if s.Former != nil && s.Former.PhoneNumber != "" {
		if former := numberKey(s.Former.PhoneNumber); former != key {
			b.formerNumber(p, former, s.At)
		}
	}
	had, e := p.current(), b.entries[key]
	switch {
	case e == nil:
		e = &entry{key: key, owner: p, since: s.At}
		e.retired = ended
		b.put(e)
	case e.owner == p:
		if ended == nil && e.retired != nil && len(s.strong()) > 0 && !s.At.Before(*e.retired) {
			e.retired, e.since = nil, s.At
		}
		if ended != nil && e.retired != nil && ended.After(*e.retired) {
			e.retired = ended // had it for longer than was known
		}
	case ended != nil || !e.yields(s.At):
		return
	default:
		b.take(e, p, s.At)
	}
	if had != nil && had != e && e.retired == nil {
		if had.since.After(e.since) {
			e.retired = new(had.since)
		} else if had.retired = new(e.since); p.reason == "" {
			p.reason = reasonMoved
		}
	}
	if e.retired == nil && (p.PhoneNumber == nil || numberKey(*p.PhoneNumber) != key) {
		p.PhoneNumber = &s.PhoneNumber
	}
}

// formerNumber remembers a number that the person has no more.
func (b *book) formerNumber(p *person, key string, at time.Time) {
	switch e := b.entries[key]; {
	case e == nil:
		b.put(&entry{key: key, owner: p, since: at, retired: &at})
	case e.owner == p:
		e.retire(at)
	}
}

// yields tells whether somebody who was seen with the number then has it now. When its
// owner gave it up is known no better than by when they were seen with another.
func (e *entry) yields(at time.Time) bool { return !at.Before(e.since) }

// take gives the number to another person.
func (b *book) take(e *entry, to *person, at time.Time) {
	if loser := e.owner; e.retired == nil {
		loser.PhoneNumber, loser.reason = nil, reasonReassigned
	}
	b.give(e, to)
	e.since, e.retired = at, nil
}

const maxName = 200

// call fills an empty name with what the person calls themselves.
func (p *person) call(name string) {
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

// show brings what the contact shows in line with its keys.
func (p *person) show() {
	if p.current() == nil {
		p.PhoneNumber = nil
	}
	p.BSUID, p.ParentBSUID = p.newest('b'), p.newest('p')
}

// newest is the value of the latest key of a kind that names the person now.
func (p *person) newest(kind byte) *string {
	var newest *entry
	for _, e := range p.keys {
		if e.key[0] != kind || e.retired != nil {
			continue
		}
		if newest == nil || e.since.After(newest.since) || e.since.Equal(newest.since) && e.key > newest.key {
			newest = e
		}
	}
	if newest == nil {
		return nil
	}
	return new(newest.key[1:])
}
