package simulator

import (
	"hash/fnv"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// person is a user of the network. Whoever has nothing special about them is made up
// from their digits each time they are needed, and costs no memory.
type person struct {
	Phone     string `json:"phone"` // digits
	Name      string `json:"name"`
	Username  string `json:"username,omitempty"`
	HidePhone bool   `json:"hide_phone,omitempty"`
	// NoReceipts: never tells that something was read.
	NoReceipts bool `json:"no_receipts,omitempty"`
	Blocked    bool `json:"blocked,omitempty"` // blocked the business: messages stay at sent
	Absent     bool `json:"absent,omitempty"`  // not on the network
	// IdentityHash changes with the user's security code.
	IdentityHash string `json:"identity_hash,omitempty"`

	generation int             // of user ids
	stopped    map[string]bool // accounts whose marketing the user stopped
}

func (p *person) userID(owner *account) string {
	return wire.UserID(p.Phone, owner.Business, p.generation)
}

func (p *person) parentUserID(owner *account) string {
	if owner.Parent == "" {
		return ""
	}
	return wire.ParentUserID(p.Phone, owner.Parent, p.generation)
}

// shownPhone is the phone as businesses see it: not at all, for some users.
func (p *person) shownPhone() string {
	if p.HidePhone {
		return ""
	}
	return p.Phone
}

type people struct {
	known   map[string]*person // by digits
	retired map[string]bool    // user ids that were rotated away
}

func newPeople() *people { return &people{known: map[string]*person{}, retired: map[string]bool{}} }

// byPhone always finds somebody: the network is full of people.
func (p *people) byPhone(digits string) *person {
	if known := p.known[digits]; known != nil {
		return known
	}
	return &person{Phone: digits, Name: nameOf(digits)}
}

// keep remembers a person who became special; a full book forgets somebody else.
func (p *people) keep(who *person) {
	if _, known := p.known[who.Phone]; !known && len(p.known) >= maxPeople {
		for digits := range p.known {
			delete(p.known, digits)
			break
		}
	}
	p.known[who.Phone] = who
}

// byUserID finds who hides behind an id of this account's portfolio, or of its parent.
func (p *people) byUserID(id string, owner *account) *person {
	if p.retired[id] {
		return nil
	}
	for generation := range maxGenerations {
		for _, portfolio := range []string{owner.Business, owner.Parent} {
			digits, ok := wire.ReadUserID(id, portfolio, generation)
			if !ok || portfolio == "" {
				continue
			}
			if who := p.byPhone(digits); who.generation == generation && (who.userID(owner) == id || who.parentUserID(owner) == id) {
				return who
			}
		}
	}
	return nil
}

// maxGenerations is how often a user id may be rotated.
const maxGenerations = 16

// retire makes the ids that a portfolio knows a person by unusable.
func (p *people) retire(ids ...string) {
	for _, id := range ids {
		if id != "" && len(p.retired) < maxPeople {
			p.retired[id] = true
		}
	}
}

// nameOf gives everybody a name, always the same one.
func nameOf(digits string) string {
	first := [...]string{
		"Ada", "Amir", "Bea", "Carlos", "Chidi", "Dana", "Emre", "Fatima", "Grace", "Hugo", "Ines", "Jun",
		"Kofi", "Lena", "Mara", "Noor",
	}
	last := [...]string{
		"Almeida", "Berg", "Costa", "Diaz", "Evans", "Fischer", "Garcia", "Haddad", "Ito", "Jensen", "Khan",
		"Lopez", "Moreau", "Novak", "Okoro", "Patel",
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(digits)) // never fails
	sum := hash.Sum32()
	return first[sum%16] + " " + last[sum/16%16]
}

// pair is a business number and a user.
type pair struct{ number, user string }

// windows knows who wrote to which number, and when.
type windows struct{ opened map[pair]time.Time }

const windowLength = 24 * time.Hour

func newWindows() *windows { return &windows{opened: map[pair]time.Time{}} }

func (w *windows) open(p pair, at time.Time) {
	if _, known := w.opened[p]; !known && len(w.opened) >= maxWindows {
		makeRoom(w.opened, func(opened time.Time) bool { return at.Sub(opened) > windowLength })
	}
	w.opened[p] = at
}

func (w *windows) isOpen(p pair, now time.Time) bool {
	opened, ever := w.opened[p]
	return ever && now.Sub(opened) < windowLength
}

// makeRoom drops what is stale, or anything at all when nothing is: at least one in
// eight, so that the next many need no look.
func makeRoom[V any](full map[pair]V, stale func(V) bool) {
	spare := len(full) / 8
	before := len(full)
	for p, value := range full {
		if stale(value) {
			delete(full, p)
		}
	}
	for p := range full {
		if before-len(full) > spare {
			return
		}
		delete(full, p)
	}
}
