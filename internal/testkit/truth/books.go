package truth

import (
	"slices"
	"time"
)

// mostCopies is how often the provider may take one message: once, and once more after an attempt
// without a known result.
const mostCopies = 2

// checkCopies checks that a message was sent again at most once, and not while a callback said that
// the provider has it.
func (c *checker) checkCopies(one *message) {
	copies := len(c.ledger.sends[one.ID.String()])
	if copies > 1 {
		c.found.Doubled++
		c.found.Extra += copies - 1
	}
	if one.Resent && one.Attempt > 1 { // without a second attempt it is only never to be sent again
		c.found.Resent++
	}
	switch {
	case copies > mostCopies:
		c.violated(Copies, "the provider took %s of %s %d times", one.ID, one.OrgID, copies)
	case copies > 1 && !one.Resent && !(c.SentAgain && slices.ContainsFunc(c.ledger.sends[one.ID.String()], c.lost)):
		c.violated(Copies, "the provider took %s of %s twice, and no attempt without a known result was sent again", one.ID, one.OrgID)
	}
	for number := 1; number < one.Attempt; number++ {
		name := reference(one.ID.String(), number)
		tried, noted := c.ledger.attempts[name]
		stored, calledBack := c.ledger.callbacks[name]
		if !noted || tried.Outcome != "unknown" || !calledBack {
			continue
		}
		// A callback gets its id before it is committed, hence the tolerance.
		if wait := stored.Sub(tried.BegunAt); wait < c.EchoWait-Tolerance {
			c.violated(Copies, "%s of %s was sent again, but a callback of its attempt %d was stored %s after the begin",
				one.ID, one.OrgID, number, wait.Round(time.Millisecond))
		}
	}
}

// lost tells that the provider took a message in the time that the cells have forgotten.
func (c *checker) lost(send Send) bool {
	return !c.Lost.Begin.IsZero() && !send.At.Before(c.Lost.Begin.Truncate(time.Millisecond)) && !send.At.After(c.Lost.End)
}

// checkKnownIDs checks that the provider has what the ledger says that it took.
func (c *checker) checkKnownIDs(one *message) {
	sends := c.ledger.sends[one.ID.String()]
	for _, id := range []*string{one.ProviderID, one.SecondProviderID} {
		if id != nil && !tookAs(sends, *id) {
			c.violated(Books, "%s of %s has the id %s, under which the provider did not take it", one.ID, one.OrgID, *id)
		}
	}
	if len(sends) == 0 && rankOf(one.Status) >= rankOf("sent") && !one.Synthesized {
		c.violated(Books, "%s of %s is %s, but the provider never took it", one.ID, one.OrgID, one.Status)
	}
}

func tookAs(sends []Send, id string) bool {
	for _, send := range sends {
		if send.ID == id {
			return true
		}
	}
	return false
}

// checkSends checks that each entry of the provider's log is one attempt of the ledger: one whose
// id is known, or one without a known result.
func (c *checker) checkSends() {
	first := map[string]Send{}
	for _, send := range c.Sends {
		id, number := send.attempt()
		one := c.ledger.messages[id]
		if one == nil || number < 1 {
			c.violated(Books, "the provider took %s with the reference %q, which is no attempt of a message", send.ID, send.Reference)
			continue
		}
		if before, twice := first[send.Reference]; twice {
			c.violated(Books, "the provider took the attempt %s twice: as %s and as %s", send.Reference, before.ID, send.ID)
		}
		first[send.Reference] = send
		if number > one.Attempt && !c.lost(send) {
			c.violated(Books, "the provider took the attempt %s, but only %d attempts were begun", send.Reference, one.Attempt)
		}
		if one.NumberID == nil || *one.NumberID != send.NumberID {
			c.violated(Books, "the provider took %s from the number %s, which is not that of the message", send.Reference, send.NumberID)
		}
		c.checkResult(one, send, number)
	}
}

// checkResult checks that the ledger has the right result of an attempt that the provider took.
func (c *checker) checkResult(one *message, send Send, number int) {
	tried, noted := c.ledger.attempts[send.Reference]
	known := one.ProviderID != nil && *one.ProviderID == send.ID || one.SecondProviderID != nil && *one.SecondProviderID == send.ID
	if send.Silent && (noted || one.Open && number == one.Attempt) {
		c.found.Silent++
	}
	switch {
	case noted && tried.Outcome != "unknown":
		c.violated(Books, "the provider took the attempt %s, but its result is noted as %s", send.Reference, tried.Outcome)
	case known:
		c.found.Accepted++
	case noted || one.Open && number == one.Attempt || c.lost(send):
		c.found.Ambiguous++
	default:
		c.violated(Books, "the provider took the attempt %s as %s: its id is not known and its result is not noted as unknown",
			send.Reference, send.ID)
	}
}
