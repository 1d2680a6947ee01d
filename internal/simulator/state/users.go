package state

import (
	"hash/fnv"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// User is a person with a phone. Every phone number is a user; only users that differ from
// the default are stored, the others are computed from their digits.
type User struct {
	Phone      string `json:"phone"` // digits
	Name       string `json:"name"`
	Username   string `json:"username,omitempty"`
	HidePhone  bool   `json:"hide_phone,omitempty"`
	NoReceipts bool   `json:"no_receipts,omitempty"` // messages stay at delivered
	Blocked    bool   `json:"blocked,omitempty"`     // messages stay at sent
	Absent     bool   `json:"absent,omitempty"`      // not on the network: messages fail
	// IdentityHash changes with the user's security code.
	IdentityHash string `json:"identity_hash,omitempty"`

	IDGeneration     int             `json:"-"` // how often the user id changed, modulo MaxGenerations
	StoppedMarketing map[string]bool `json:"-"` // by account id
}

// UserID returns the id by which the account's portfolio knows the user.
func (u *User) UserID(owner *Account) string {
	return wire.UserID(u.Phone, owner.Business, u.IDGeneration)
}

// ParentUserID returns the id that linked portfolios share, empty without a parent.
func (u *User) ParentUserID(owner *Account) string {
	if owner.Parent == "" {
		return ""
	}
	return wire.ParentUserID(u.Phone, owner.Parent, u.IDGeneration)
}

// VisiblePhone returns the phone number that businesses see, empty when the user hides it.
func (u *User) VisiblePhone() string {
	if u.HidePhone {
		return ""
	}
	return u.Phone
}

// userStore holds the users that differ from the default.
type userStore struct {
	Saved   map[string]*User // by digits
	retired map[string]bool  // user ids that were replaced
}

func newUserStore() *userStore {
	return &userStore{Saved: map[string]*User{}, retired: map[string]bool{}}
}

// ByPhone returns the stored user, or the default user of a number.
func (u *userStore) ByPhone(digits string) *User {
	if saved := u.Saved[digits]; saved != nil {
		return saved
	}
	return &User{Phone: digits, Name: nameOf(digits)}
}

// Save stores a user. A full store deletes another one.
func (u *userStore) Save(user *User) {
	if _, saved := u.Saved[user.Phone]; !saved && len(u.Saved) >= maxUsers {
		for digits := range u.Saved {
			delete(u.Saved, digits)
			break
		}
	}
	u.Saved[user.Phone] = user
}

// ByUserID finds the user of an id in the account's portfolio or its parent.
func (u *userStore) ByUserID(id string, owner *Account) *User {
	if u.retired[id] {
		return nil
	}
	for generation := range MaxGenerations {
		for _, portfolio := range []string{owner.Business, owner.Parent} {
			digits, ok := wire.ReadUserID(id, portfolio, generation)
			if !ok || portfolio == "" {
				continue
			}
			if user := u.ByPhone(digits); user.IDGeneration == generation && (user.UserID(owner) == id || user.ParentUserID(owner) == id) {
				return user
			}
		}
	}
	return nil
}

// MaxGenerations is how many different user ids a user can have.
const MaxGenerations = 16

// RetireIDs makes user ids unusable.
func (u *userStore) RetireIDs(ids ...string) {
	for _, id := range ids {
		if id != "" && len(u.retired) < maxUsers {
			u.retired[id] = true
		}
	}
}

// nameOf computes the default name of a user.
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
