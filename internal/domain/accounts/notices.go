package accounts

import (
	"time"

	"github.com/parley-chat/parley/internal/provider"
)

// notices are the newest values that notifications gave, by subject. Notifications come in any
// order and more than once; whatever the order, the same values remain.
type notices map[string]notice

// notice is a value and the time of its notification. An empty value withdraws the notice.
type notice struct {
	Word string    `json:"word,omitempty"`
	At   time.Time `json:"at"`
}

// The subjects of notices.
const (
	link           = "link"      // why we have no access to the business account any more
	ban            = "ban"       // why the provider disabled it
	enrolment      = "enrolment" // why the number must be registered again
	displayName    = "name"
	messagingLimit = "limit"
	review         = "review"
	restriction    = "restriction:" // followed by the scope; the value is the end
)

// forever is the end of a restriction for which the provider named none.
const forever = "9999-12-31T00:00:00Z"

func (n notices) of(what string) string { return n[what].Word }

// add keeps the newest value. Of two values of the same time the greater stays, so that every
// order ends the same; a reason is greater than none.
func (n *notices) add(what, word string, at time.Time) (changed bool) {
	known, found := (*n)[what]
	if found && (at.Before(known.At) || at.Equal(known.At) && word <= known.Word) {
		return false
	}
	if *n == nil {
		*n = notices{}
	}
	(*n)[what] = notice{Word: word, At: at.UTC()}
	return !found || known.Word != word
}

func (n notices) restricts(scope provider.RestrictionScope, now time.Time) bool {
	until, err := time.Parse(time.RFC3339, n.of(restriction+string(scope)))
	return err == nil && now.Before(until)
}

// note adds a notice, and copies the name and the limit into their columns. An empty name or
// limit is ignored.
func (a *Account) note(what, word string, at time.Time) {
	shown := what == displayName || what == messagingLimit
	if shown && word == "" {
		return
	}
	a.Notices.add(what, word, at)
	switch what {
	case displayName:
		a.Name = text(a.Notices.of(displayName))
	case messagingLimit:
		a.MessagingLimit = text(a.Notices.of(messagingLimit))
	}
}
