package accounts

import (
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/provider"
)

// notices are what the provider said by itself, by what it is about. Of each only the
// newest word counts: notifications come in any order and more than once, and whatever
// the order, the same words remain.
type notices map[string]notice

// notice is a word and when it was said. The empty word takes back.
type notice struct {
	Word string    `json:"word,omitempty"`
	At   time.Time `json:"at"`
}

// What notices are about.
const (
	link           = "link"      // why we have no access to the business account any more
	ban            = "ban"       // why the provider disabled it
	enrolment      = "enrolment" // why the number must be registered again
	displayName    = "name"
	messagingLimit = "limit"
	review         = "review"
	restriction    = "restriction:" // and what is restricted; the word is until when
)

// forever is the word of a restriction whose end the provider did not say.
const forever = "9999-12-31T00:00:00Z"

func (n notices) of(what string) string { return n[what].Word }

// add keeps the newest word. Of two that are equally old the greater stays, so that every
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
	for what, said := range n {
		kind, is := strings.CutPrefix(what, restriction)
		if !is || !strings.HasSuffix(kind, "/"+string(scope)) {
			continue
		}
		if until, err := time.Parse(time.RFC3339, said.Word); err == nil && now.Before(until) {
			return true
		}
	}
	return false
}

// note adds a notice and takes over what is shown of it. An empty word about something
// that is only shown says nothing.
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
