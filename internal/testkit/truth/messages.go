package truth

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const (
	messageSent     = "message.sent"
	messageStatus   = "message.status"
	messageReceived = "message.received"
	contactCreated  = "contact.created"
	contactUpdated  = "contact.updated"
)

// follows tells an event that has no change of its own: a status of a message, a message that a person
// wrote, the contact that a message made, or the name that a person's first message gave it.
// checkStatusEvents, checkReceived and checkContactEvents check them.
func (c *checker) follows(one *event) bool {
	switch one.Type {
	case messageStatus, messageReceived:
		return true
	case contactCreated:
		return c.ledger.contacts[one.ContactID] || c.ledger.wrote[one.ContactID]
	case contactUpdated:
		return c.ledger.wrote[one.ContactID]
	default:
		return false
	}
}

// checkReceived checks that each message that a person wrote is stored and has one event, and that no event
// tells of another.
func (c *checker) checkReceived() {
	events := map[string]int{}
	for _, one := range c.sortedEvents() {
		if one.Type != messageReceived {
			continue
		}
		events[one.Key]++
		if !slices.Contains(c.Written, one.Key) {
			c.violated(Delivered, "%s, %s of %s: no person wrote %s", one.ID, one.Type, one.OrgID, one.Key)
		}
		if c.ledger.received[one.Key] != one.MessageID {
			c.violated(Delivered, "%s, %s of %s, is about %s, which is not the message %s", one.ID, one.Type, one.OrgID, one.MessageID, one.Key)
		}
	}
	for _, id := range c.Written {
		if _, stored := c.ledger.received[id]; !stored {
			c.violated(Delivered, "a person wrote %s, and it is no message", id)
		} else if events[id] != 1 {
			c.violated(Delivered, "a person wrote %s, and it has %d events", id, events[id])
		}
	}
}

// checkMessages checks what became of messages: in the cells, in events, and at the provider.
func (c *checker) checkMessages() {
	for _, one := range c.Sends {
		message, _ := one.attempt()
		c.ledger.sends[message] = append(c.ledger.sends[message], one)
	}
	for _, call := range c.Calls {
		if known := c.ledger.messages[call.created()]; known != nil && known.Status == failed {
			c.ledger.failed[call.Mark] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.ledger.messages)) {
		one := c.ledger.messages[id]
		c.checkSettled(one)
		c.checkForward(one)
		c.checkCopies(one)
		c.checkKnownIDs(one)
	}
	c.checkStatusEvents()
	c.checkReceived()
	c.checkContactEvents()
	c.checkSends()
	c.checkQuotas()
	c.checkPaces()
	c.checkRequestRates()
	c.found.Messages, c.found.Sends = len(c.ledger.messages), len(c.Sends)
}

// failed is the status of a message that failed.
const failed = "failed"

// rankOf orders the statuses of messages and callbacks.
func rankOf(status string) int {
	switch status {
	case "queued":
		return 0
	case "pending":
		return 1
	case "delivered":
		return 3
	case "read":
		return 4
	case failed:
		return 5
	default: // sent, and those that prove no more than that
		return 2
	}
}

// checkSettled checks that a message has ended and that its end has an event.
func (c *checker) checkSettled(one *message) {
	sent, told := 0, 0
	for _, event := range c.about[one.ID.Any()] {
		switch {
		case event.Type == messageSent:
			sent++
		case statusOf(event).Status == failed:
			told++
		}
	}
	switch {
	case one.Status == "queued" || one.Status == "pending":
		c.violated(Settled, "%s of %s is still %s, at its attempt %d", one.ID, one.OrgID, one.Status, one.Attempt)
	case one.Status == failed && told == 0:
		c.violated(Settled, "%s of %s failed without an event", one.ID, one.OrgID)
	case one.Status != failed && sent == 0:
		c.violated(Settled, "%s of %s is %s without a message.sent", one.ID, one.OrgID, one.Status)
	}
	if sent > 1 {
		c.violated(Delivered, "%s of %s has %d message.sent", one.ID, one.OrgID, sent)
	}
}

// told is the status in a message.status.
type told struct {
	ID     string
	Status string
}

// own says that the status is our own word and not the provider's.
func (s told) own() bool { return strings.HasPrefix(s.ID, "msg_") }

// statusOf returns the one status in the body of a message.status; zero for other events.
func statusOf(one *event) (status told) {
	var body struct {
		Entry []struct {
			Changes []struct{ Value struct{ Statuses []told } }
		}
	}
	if one.Type != messageStatus || json.Unmarshal(one.Body, &body) != nil || len(body.Entry) == 0 {
		return told{}
	}
	if changes := body.Entry[0].Changes; len(changes) > 0 && len(changes[0].Value.Statuses) > 0 {
		return changes[0].Value.Statuses[0]
	}
	return told{}
}

// checkForward checks that the status of a message is not behind one that the provider reported.
func (c *checker) checkForward(one *message) {
	for _, event := range c.about[one.ID.Any()] {
		status := statusOf(event)
		switch {
		case status.Status == "" || status.own():
		case rankOf(status.Status) > rankOf(one.Status):
			c.violated(Forward, "%s of %s is %s, but the provider reported %s", one.ID, one.OrgID, one.Status, status.Status)
		case one.Status == failed && one.Synthesized:
			c.violated(Forward, "%s of %s failed by our own word, but the provider reported %s", one.ID, one.OrgID, status.Status)
		}
	}
}

// checkStatusEvents checks that each message.status is about a message, and that no message has two
// for one status. A failure by our own word and one that the provider reported are two.
func (c *checker) checkStatusEvents() {
	type key struct {
		message, status string
		own             bool
	}
	seen := map[key]bool{}
	for _, one := range c.sortedEvents() {
		if one.Type != messageStatus {
			continue
		}
		status := statusOf(one)
		if !c.stored[owned{one.OrgID.String(), one.MessageID.String()}] || one.MessageID.IsZero() {
			c.violated(Delivered, "%s, %s of %s, is about no message of it", one.ID, one.Type, one.OrgID)
			continue
		}
		at := key{one.MessageID.String(), status.Status, status.own()}
		if seen[at] {
			c.violated(Delivered, "%s, %s of %s, tells %q a second time", one.ID, one.Type, one.OrgID, status.Status)
		}
		seen[at] = true
	}
}

// checkContactEvents checks that contact.created was recorded once at most for each contact.
func (c *checker) checkContactEvents() {
	type told struct {
		owned
		kind string
	}
	seen := map[told]bool{}
	for _, one := range c.sortedEvents() {
		at := told{owned{one.OrgID.String(), one.ContactID.String()}, one.Type}
		named := one.Type == contactUpdated && c.ledger.wrote[one.ContactID] && len(marksIn(one.Body)) == 0
		if (one.Type == contactCreated || named) && seen[at] {
			c.violated(Delivered, "%s, %s of %s, announces a contact a second time", one.ID, one.Type, one.OrgID)
		}
		seen[at] = true
	}
}
