// Package histories generates changes of people's identifiers, and sightings of these people, for
// tests of identity resolution.
package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/domain/contacts/identity"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// History is what happened to some people, and the sightings of it, in the order in which they
// arrive.
type History struct {
	People    []Life
	Sightings []Seen
}

// Life is the identifiers that a person has in the end.
type Life struct{ Number, BSUID string }

// Seen is a sighting of a person.
type Seen struct {
	identity.Sighting

	Who int
}

func (s Seen) String() string {
	text := fmt.Sprintf("%d at %d: %s %s %s", s.Who, int(s.At.Sub(pgtest.Start()).Seconds()), s.PhoneNumber, s.BSUID, s.ParentBSUID)
	if s.Former != nil {
		text += fmt.Sprintf(" formerly %s %s %s", s.Former.PhoneNumber, s.Former.BSUID, s.Former.ParentBSUID)
	}
	return text
}

// Of makes histories of one to four people. Each has one number and one BSUID at a time; a
// change gives a new BSUID, mostly with a new number, and is announced by a notice. Of each period
// at least one sighting has both number and BSUID. Numbers that were given up may go to other
// people, or back to their former owner. No sighting then has such a number alone, because it would
// not identify a person. Sightings arrive in any order.
//
// Histories of different bases have different numbers and BSUIDs.
func Of(base int) *rapid.Generator[History] {
	return rapid.Custom(func(r *rapid.T) History {
		w := &making{r: r, base: base * 100, recycled: rapid.Bool().Draw(r, "recycled")}
		for who := range rapid.IntRange(1, 4).Draw(r, "people") {
			w.live(who)
		}
		w.Sightings = rapid.Permutation(w.Sightings).Draw(r, "arrival")
		return w.History
	})
}

type making struct {
	History

	r        *rapid.T
	base     int
	recycled bool
	serial   int
	// free are numbers that were given up, and when.
	free []freed
}

type freed struct {
	number string
	at     int
}

func (w *making) at(second int) time.Time {
	return pgtest.Start().Add(time.Duration(second) * time.Second)
}

// newNumber returns a number that is unused or was given up before.
func (w *making) newNumber(at int) string {
	if w.recycled && len(w.free) > 0 && rapid.Bool().Draw(w.r, "taken over") {
		i := rapid.IntRange(0, len(w.free)-1).Draw(w.r, "which")
		if w.free[i].at < at {
			number := w.free[i].number
			w.free = slices.Delete(w.free, i, i+1)
			return number
		}
	}
	w.serial++
	if w.serial%2 == 0 {
		return fmt.Sprintf("+55319%08d", 80_000_000+w.base+w.serial) // a mobile number of Brazil
	}
	return fmt.Sprintf("+351%09d", 910_000_000+w.base+w.serial)
}

func (w *making) newBSUID() string {
	w.serial++
	return fmt.Sprintf("PT.%d", w.base+w.serial)
}

// form returns one of the national forms of a number.
func (w *making) form(number string) string {
	if strings.HasPrefix(number, "+55319") && rapid.Bool().Draw(w.r, "short form") {
		return "+5531" + strings.TrimPrefix(number, "+55319")
	}
	return number
}

func (w *making) see(who int, s identity.Sighting) {
	w.Sightings = append(w.Sightings, Seen{Sighting: s, Who: who})
}

func (w *making) live(who int) {
	r := w.r
	now := rapid.IntRange(0, 50).Draw(r, "born")
	number, bsuid, parent := w.newNumber(now), w.newBSUID(), ""
	if rapid.IntRange(0, 3).Draw(r, "managed") == 0 {
		parent = "PT.ENT." + bsuid[3:]
	}
	for period := range rapid.IntRange(1, 3).Draw(r, "periods") {
		if period > 0 {
			number, bsuid, parent = w.rotate(who, now, number, bsuid, parent)
		}
		linked := rapid.IntRange(0, 3).Draw(r, "linked at")
		for i := range linked + rapid.IntRange(1, 2).Draw(r, "sightings") {
			now += rapid.IntRange(0, 2).Draw(r, "later")
			s := identity.Sighting{At: w.at(now), PhoneNumber: w.form(number), BSUID: bsuid, ParentBSUID: parent}
			if i != linked {
				switch rapid.IntRange(0, 3).Draw(r, "shown") {
				case 0:
					s.PhoneNumber = ""
				case 1:
					if !w.recycled {
						s.BSUID, s.ParentBSUID = "", ""
					}
				case 2:
					s.ParentBSUID = ""
				}
			}
			w.see(who, s)
		}
		now += rapid.IntRange(0, 3).Draw(r, "rest")
	}
	w.People = append(w.People, Life{Number: number, BSUID: bsuid})
}

// rotate changes the identifiers of a person and adds the notice of it.
func (w *making) rotate(who, now int, number, bsuid, parent string) (newNumber, newBSUID, newParent string) {
	r := w.r
	former := &identity.Former{PhoneNumber: w.form(number), BSUID: bsuid, ParentBSUID: parent, Reason: "user_changed_number"}
	newNumber, newBSUID = number, w.newBSUID()
	if rapid.IntRange(0, 3).Draw(r, "keeps its number") > 0 {
		newNumber = w.newNumber(now)
		w.free = append(w.free, freed{number: number, at: now})
	}
	if parent != "" {
		newParent = "PT.ENT." + newBSUID[3:]
	}
	notice := identity.Sighting{At: w.at(now), PhoneNumber: w.form(newNumber), BSUID: newBSUID, ParentBSUID: newParent, Former: former}
	switch rapid.IntRange(0, 3).Draw(r, "notice") {
	case 0:
		notice.PhoneNumber, former.Reason = "", "user_changed_user_id"
	case 1:
		former.PhoneNumber = ""
	case 2:
		notice.PhoneNumber, former.PhoneNumber, former.Reason = "", "", "user_changed_user_id"
	}
	w.see(who, notice)
	return newNumber, newBSUID, newParent
}

// Found is the contact that a sighting was resolved to.
type Found struct {
	ID identity.ID
	identity.Identity
}

// RequireOneEach checks that each person has one contact, with the identifiers that the person has
// in the end. Contacts are those of the sightings, in their order.
func RequireOneEach(t require.TestingT, h History, contacts []Found) {
	owners := map[identity.ID]int{}
	for i, s := range h.Sightings {
		if other, taken := owners[contacts[i].ID]; taken {
			require.Equal(t, other, s.Who, "two persons in one contact")
		}
		owners[contacts[i].ID] = s.Who
	}
	require.Len(t, owners, len(h.People), "as many contacts as persons")
	for i, s := range h.Sightings {
		person, contact := h.People[s.Who], contacts[i]
		require.Equal(t, person.BSUID, *contact.BSUID)
		require.NotNil(t, contact.PhoneNumber, "person %d", s.Who)
		require.Equal(t, identity.NumberKey(person.Number), identity.NumberKey(*contact.PhoneNumber), "person %d", s.Who)
	}
}
