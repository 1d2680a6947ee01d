package truth

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// checkDelivered checks that each change has one event, and that each event reached the
// subscriptions that match it, and no other.
func (c *checker) checkDelivered() {
	c.checkChanges()
	c.checkDeliveries()
	arrived := map[arrival]bool{}
	for _, request := range c.Requests {
		subscription, known := c.byPath[request.Path]
		if !known {
			c.violated(Delivered, "request %d went to %s, which has no subscription", request.Number, request.Path)
			continue
		}
		if c.checkRequest(subscription, request) {
			arrived[arrival{request.EventUID(), subscription.ID}] = true
		}
	}
	for _, one := range c.sortedEvents() {
		for i := range c.Subscriptions {
			subscription := &c.Subscriptions[i]
			if wants(subscription, one) && lived(subscription, one) && !arrived[arrival{one.ID.String(), subscription.ID}] {
				c.violated(Delivered, "%s, %s of %s, never arrived at %s", one.ID, one.Type, one.OrgID, subscription.ID)
			}
		}
	}
}

type arrival struct{ event, subscription string }

func (c *checker) sortedEvents() []*event {
	return slices.SortedFunc(maps.Values(c.events), func(a, b *event) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
}

// checkChanges checks that each change has its event, and that each event has its change.
func (c *checker) checkChanges() {
	acknowledged := map[string]bool{}
	for _, call := range c.Calls {
		if call.Mark == "" || call.Event == "" {
			continue
		}
		_, seen := acknowledged[call.Mark]
		if acknowledged[call.Mark] = acknowledged[call.Mark] || call.succeeded(); seen {
			continue
		}
		recorded := c.marked[call.Mark]
		if len(recorded) > 1 {
			c.violated(Delivered, "the change %s of %s has %d events: %s", call.Mark, call.Org, len(recorded), idsOf(recorded))
		}
		for _, one := range recorded {
			if one.OrgID.String() != call.Org || one.Type != call.Event {
				c.violated(Delivered, "the change %s should be a %s of %s; %s is a %s of %s",
					call.Mark, call.Event, call.Org, one.ID, one.Type, one.OrgID)
			}
		}
	}
	for _, mark := range slices.Sorted(maps.Keys(acknowledged)) {
		if acknowledged[mark] && len(c.marked[mark]) == 0 && !c.ledger.failed[mark] {
			c.violated(Delivered, "the change %s was acknowledged and has no event", mark)
		}
	}
	for _, one := range c.sortedEvents() {
		if one.Audience == "public" && !c.follows(one) &&
			!slices.ContainsFunc(marksIn(one.Body), func(mark string) bool { _, asked := acknowledged[mark]; return asked }) {
			c.violated(Delivered, "%s, %s of %s, belongs to no change of a client", one.ID, one.Type, one.OrgID)
		}
	}
}

func idsOf(all []*event) string {
	var names []string
	for _, one := range all {
		names = append(names, one.ID.String())
	}
	return strings.Join(names, ", ")
}

// checkDeliveries checks that an event has one delivery per subscription, apart from replays.
func (c *checker) checkDeliveries() {
	made := map[arrival]string{}
	for _, id := range slices.Sorted(maps.Keys(c.deliveries)) {
		one := c.deliveries[id]
		way := arrival{one.EventID.String(), one.SubscriptionID.String()}
		if before, twice := made[way]; twice && !one.Replay {
			c.violated(Delivered, "%s has two deliveries to %s: %s and %s", way.event, way.subscription, before, id)
		}
		if !one.Replay {
			made[way] = id
		}
	}
}

// checkRequest reports whether the subscription should receive the request.
func (c *checker) checkRequest(to *Subscription, request receiver.Request) bool {
	before := len(c.found.Violations)
	one, known := c.events[request.EventUID()]
	if !known {
		c.violated(Delivered, "%s received %q in %s, which is no event", to.ID, request.EventUID(), request.DeliveryID())
		return false
	}
	if !bytes.Equal(one.Body, request.Body) {
		c.violated(Delivered, "%s received %s in %s with a body that differs from the event's at byte %d",
			to.ID, one.ID, request.DeliveryID(), differAt(one.Body, request.Body))
	}
	if key := request.Header.Get("X-Svc-Event-Id"); key != one.Key || request.Event() != one.Type {
		c.violated(Delivered, "%s received %s in %s as %s %q instead of %s %q",
			to.ID, one.ID, request.DeliveryID(), request.Event(), key, one.Type, one.Key)
	}
	if one.Audience == "public" && !wants(to, one) {
		c.violated(Delivered, "%s of %s received %s, a %s of %s that it did not ask for", to.ID, to.Org, one.ID, one.Type, one.OrgID)
	}
	if made, there := c.deliveries[request.DeliveryID()]; !there || made.EventID != one.ID || made.SubscriptionID.String() != to.ID {
		c.violated(Delivered, "%s received %s by the delivery %q, which is not of them", to.ID, one.ID, request.DeliveryID())
	}
	return len(c.found.Violations) == before
}

// wants reports whether an event matches a subscription.
func wants(s *Subscription, one *event) bool {
	return one.Audience == "public" && one.OrgID.String() == s.Org && slices.Contains(s.Events, one.Type) &&
		(one.PhoneNumberID == nil || len(s.Numbers) == 0 || slices.Contains(s.Numbers, *one.PhoneNumberID))
}

// lived reports whether the subscription surely existed when the event happened.
func lived(s *Subscription, one *event) bool {
	at := one.ID.CreatedAt()
	return !at.Before(s.Since) && (s.Until.IsZero() || at.Before(s.Until.Add(-Tolerance)))
}
