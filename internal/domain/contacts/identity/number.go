package identity

import (
	"slices"
	"time"
)

// applyNumber gives the sighting's number to a person. A number belongs to the person of its latest
// sighting, and a person has the number of their latest sighting. Outdated is set
// when the sighting is from before a known change: it says nothing of the time after that.
func (r *Resolver) applyNumber(p *Person, s *Sighting, outdated *time.Time) {
	if s.PhoneNumber == "" {
		return
	}
	key := NumberKey(s.PhoneNumber)
	if s.Former != nil && s.Former.PhoneNumber != "" {
		if former := NumberKey(s.Former.PhoneNumber); former != key {
			r.retireNumber(p, former, s.At)
		}
	}
	had, e := p.number(), r.entries[key]
	switch {
	case e == nil:
		e = &entry{key: key, owner: p, since: s.At, retired: outdated}
		r.put(e)
	case e.owner == p:
		if outdated == nil && e.retired != nil && len(s.strong()) > 0 && !s.At.Before(*e.retired) {
			e.retired, e.since = nil, s.At
		}
		if outdated != nil && e.retired != nil && outdated.After(*e.retired) {
			e.retired = outdated // the person had it for longer than was known
		}
	case outdated != nil || s.At.Before(e.since):
		return // its owner was seen with it later
	default:
		r.reassign(e, p, s.At)
	}
	if had != nil && had != e && e.retired == nil {
		if had.since.After(e.since) {
			e.retired = new(had.since)
		} else if had.retired = new(e.since); p.Reason == "" {
			p.Reason = reasonMoved
		}
	}
	if e.retired == nil && (p.PhoneNumber == nil || NumberKey(*p.PhoneNumber) != key) {
		p.PhoneNumber = &s.PhoneNumber
	}
}

// retireNumber notes that the person does not have the number any more.
func (r *Resolver) retireNumber(p *Person, key string, at time.Time) {
	switch e := r.entries[key]; {
	case e == nil:
		r.put(&entry{key: key, owner: p, since: at, retired: &at})
	case e.owner == p:
		e.retire(at)
	}
}

// reassign gives the number to another person.
func (r *Resolver) reassign(e *entry, to *Person, at time.Time) {
	former := e.owner
	if e.retired == nil {
		former.PhoneNumber, former.Reason = nil, reasonReassigned
	}
	former.keys = slices.DeleteFunc(former.keys, func(other *entry) bool { return other == e })
	to.keys = append(to.keys, e)
	e.owner, e.since, e.retired = to, at, nil
}
