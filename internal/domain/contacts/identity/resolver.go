package identity

import (
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// Resolver holds what is known of some contacts of an account and applies sightings to it.
type Resolver struct {
	// People are the contacts that were loaded or made, in that order.
	People []*Person

	now     time.Time
	entries map[string]*entry
}

// NewResolver knows nobody. New contacts are made at now.
func NewResolver(now time.Time) *Resolver {
	return &Resolver{now: now, entries: map[string]*entry{}}
}

// Load adds a contact as it is stored. Its keys follow by LoadKeys.
func (r *Resolver) Load(id ID, stored Identity) {
	r.People = append(r.People, &Person{ID: id, Identity: stored, Before: &stored})
}

// LoadKeys adds the stored keys of contacts that were loaded; other keys are left out.
func (r *Resolver) LoadKeys(keys []Key) {
	byID := make(map[ID]*Person, len(r.People))
	for _, p := range r.People {
		byID[p.ID] = p
	}
	for _, stored := range keys {
		if p := byID[stored.ContactID]; p != nil {
			r.put(&entry{key: stored.Key, owner: p, since: stored.Since, retired: stored.RetiredAt, stored: &stored})
		}
	}
}

// Owner is the contact that a key identifies, and whether it does so now.
func (r *Resolver) Owner(key string) (owner ID, known, current bool) {
	e := r.entries[key]
	if e == nil {
		return ID{}, false, false
	}
	return e.owner.Last().ID, true, e.retired == nil
}

// ChangedKeys are the keys to be stored, sorted, and the stored contacts that they belong to or
// belonged to before.
func (r *Resolver) ChangedKeys() (keys []Key, owners []ID) {
	for _, e := range r.entries {
		if !e.changed() {
			continue
		}
		owner := e.owner.Last()
		keys = append(keys, Key{Key: e.key, ContactID: owner.ID, Since: e.since, RetiredAt: e.retired})
		if !owner.New() {
			owners = append(owners, owner.ID)
		}
		if e.stored != nil {
			owners = append(owners, e.stored.ContactID)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Key, b.Key) })
	return keys, owners
}

func (r *Resolver) put(e *entry) {
	r.entries[e.key] = e
	e.owner.keys = append(e.owner.keys, e)
}

// Apply applies a sighting and returns its person; nil if the sighting is Known and there is none.
func (r *Resolver) Apply(s Sighting) *Person {
	p := r.find(&s)
	if p == nil && s.Known {
		return nil
	}
	if p == nil {
		p = &Person{ID: ids.New[kind](r.now)}
		r.People = append(r.People, p)
	} else if s.Addressed {
		return p
	}
	r.applyStrong(p, &s)
	outdated := r.outdated(&s)
	r.applyNumber(p, &s, outdated)
	if outdated == nil && s.Username != "" {
		p.Username = new(Bare(s.Username))
	}
	p.show()
	return p
}

// find returns the person of a sighting, or nil. Contacts that one sighting identifies together
// are one person: they are merged.
func (r *Resolver) find(s *Sighting) *Person {
	var found []*Person
	add := func(e *entry) {
		if e != nil && !slices.Contains(found, e.owner) {
			found = append(found, e.owner)
		}
	}
	former := s.Former.strong()
	for _, key := range append(s.strong(), former...) {
		add(r.entries[key])
	}
	var now *Person
	if strong := s.strong(); len(strong) > 0 && r.entries[strong[0]] != nil {
		now = r.entries[strong[0]].owner
	}
	if s.Former != nil && s.Former.PhoneNumber != "" {
		// Beside a strong key, the number says who it was only of a person of whom no strong key is known.
		if e := r.entries[NumberKey(s.Former.PhoneNumber)]; e != nil && e.current(s.At) && (len(former) == 0 || e.owner.onlyNumber()) {
			add(e)
		}
	}
	if s.PhoneNumber != "" {
		if e := r.entries[NumberKey(s.PhoneNumber)]; e != nil && r.proves(e, s) {
			add(e)
		}
	}
	return merge(found, now)
}

// proves tells whether the number in a sighting shows that its person is the number's owner.
// Alone it does while the owner has it. Beside a strong key it does only when the number is
// all that identifies the owner.
func (r *Resolver) proves(e *entry, s *Sighting) bool {
	if len(s.strong()) == 0 && s.Former == nil {
		return e.retired == nil || !s.At.After(*e.retired)
	}
	outdated := r.outdated(s)
	return e.retired == nil && e.owner.onlyNumber() && (outdated == nil || !e.since.After(*outdated))
}

// outdated returns when a strong key of the sighting was retired, if the sighting is from before
// that, and nil otherwise.
func (r *Resolver) outdated(s *Sighting) (retired *time.Time) {
	for _, key := range s.strong() {
		if e := r.entries[key]; e != nil && e.retired != nil && !s.At.After(*e.retired) {
			return e.retired
		}
	}
	return nil
}

// applyStrong gives the person the strong keys of the sighting, and retires those that a notice
// replaces.
func (r *Resolver) applyStrong(p *Person, s *Sighting) {
	for _, key := range s.strong() {
		e := r.entryOf(key, p, s.At)
		e.renew(s.At)
		if s.Former != nil && s.At.After(e.since) {
			e.since = s.At // the notice says when the person got it
		}
	}
	if s.Former == nil {
		return
	}
	p.Reason = s.Former.Reason
	for _, key := range r.replaced(p, s) {
		r.entryOf(key, p, s.At).retire(s.At)
	}
}

// entryOf is the entry of a key, made for the person when it is not known.
func (r *Resolver) entryOf(key string, p *Person, at time.Time) *entry {
	if e := r.entries[key]; e != nil {
		return e
	}
	e := &entry{key: key, owner: p, since: at}
	r.put(e)
	return e
}

// replaced are the strong keys that a notice replaces: those that it calls former, or else those
// that the person has, as far as the notice gives a new key of their kind.
func (r *Resolver) replaced(p *Person, s *Sighting) (keys []string) {
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
		sameKind := slices.ContainsFunc(given, func(other string) bool { return other[0] == key[0] })
		if sameKind && !slices.Contains(given, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
