package identity

import (
	"slices"
	"time"
)

// Key is a stored key: whom it identifies, since when, and until when.
type Key struct {
	Key       string
	ContactID ID
	Since     time.Time
	// RetiredAt is when the key stopped to identify the person; nil while it does. A sighting
	// from before that still means the person.
	RetiredAt *time.Time
}

// entry is a key while sightings are applied.
type entry struct {
	key     string
	owner   *Person
	since   time.Time
	retired *time.Time
	// stored is the key as it was loaded; nil when it is new.
	stored *Key
}

// retire ends the entry, unless it began later: then the notice is outdated.
func (e *entry) retire(at time.Time) {
	if e.since.After(at) || e.retired != nil && !at.After(*e.retired) {
		return
	}
	e.retired = &at
}

// renew makes the entry current again when its owner was seen with it after it had ended.
func (e *entry) renew(at time.Time) {
	if e.retired != nil && at.After(*e.retired) {
		e.retired, e.since = nil, at
	}
}

// current tells whether the entry identified its owner at that time, as far as is known.
func (e *entry) current(at time.Time) bool {
	return !e.since.After(at) && (e.retired == nil || at.Before(*e.retired))
}

func (e *entry) changed() bool {
	if e.stored == nil {
		return true
	}
	sameEnd := e.retired == e.stored.RetiredAt || e.retired != nil && e.stored.RetiredAt != nil && e.retired.Equal(*e.stored.RetiredAt)
	return !sameEnd || e.owner.Last().ID != e.stored.ContactID || !e.since.Equal(e.stored.Since)
}

// Person is a contact while sightings are applied.
type Person struct {
	ID ID
	Identity

	// Before is the identity as it was loaded; nil when the contact is new.
	Before *Identity
	// Into is the person that this one was merged into.
	Into *Person
	// Merged are all persons that were merged into this one, oldest merge first.
	Merged []*Person
	// Reason is why the identity changed last.
	Reason string

	keys []*entry
}

// New tells whether the contact was made by a sighting.
func (p *Person) New() bool { return p.Before == nil }

// Last is the person at the end of all merges.
func (p *Person) Last() *Person {
	for p.Into != nil {
		p = p.Into
	}
	return p
}

// Previous is the identity that contact.identity_updated shows as the former one, and whether
// the event is due: when an identifier was replaced or lost, or when two contacts became one.
// A first identifier of its kind is no change of identity.
func (p *Person) Previous() (previous Identity, changed bool) {
	was, is := *p.Before, p.Identity
	replaced := func(was, is *string) bool { return was != nil && !same(was, is) }
	if replaced(was.PhoneNumber, is.PhoneNumber) || replaced(was.BSUID, is.BSUID) || replaced(was.ParentBSUID, is.ParentBSUID) {
		return was, true
	}
	for _, other := range p.Merged {
		if other.New() {
			continue
		}
		if !was.equal(is) {
			return was, true
		}
		return *other.Before, true
	}
	return Identity{}, false
}

// number is the key of the person's number, of which there is one at most.
func (p *Person) number() *entry {
	for _, e := range p.keys {
		if isNumber(e.key) && e.retired == nil {
			return e
		}
	}
	return nil
}

// onlyNumber tells whether a number is all that identifies the person: then the contact is
// whichever person has the number.
func (p *Person) onlyNumber() bool {
	return !slices.ContainsFunc(p.keys, func(e *entry) bool { return !isNumber(e.key) })
}

// show brings the shown identity in line with the keys.
func (p *Person) show() {
	if p.number() == nil {
		p.PhoneNumber = nil
	}
	p.BSUID, p.ParentBSUID = p.newest('b'), p.newest('p')
}

// newest is the value of the latest current key of a kind.
func (p *Person) newest(kind byte) *string {
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

// merge makes one person of several: the contact that was made first. Now is the person whom
// the sighting's own keys identify: of two numbers first seen in the same second, that
// person's number is kept.
func merge(found []*Person, now *Person) *Person {
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b *Person) int {
		if a.New() != b.New() {
			if a.New() {
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

// absorb takes over the keys of another person, and its number and username where they count.
func (p *Person) absorb(other *Person, now bool) {
	mine, theirs := p.number(), other.number()
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
	if p.Username == nil {
		p.Username = other.Username
	}
	if theirs != nil && theirs.retired == nil {
		p.PhoneNumber = other.PhoneNumber
	}
	other.Into = p
	p.Merged = append(append(p.Merged, other), other.Merged...)
	p.Reason = reasonLinked
}
