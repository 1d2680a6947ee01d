package control

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/dispatcher"
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// span says which of the matching entries of a log are answered. Without limit and skip it is
// all of them.
type span struct{ skip, limit int }

// readSpan reads the parameters skip and limit of a query, and refuses parameters other than these and the filters.
func readSpan(query url.Values, filters ...string) (span, error) {
	if err := checkNames(query, append(filters, "skip", "limit")...); err != nil {
		return span{}, err
	}
	read := span{limit: -1}
	for name, target := range map[string]*int{"skip": &read.skip, "limit": &read.limit} {
		given := query.Get(name)
		if given == "" {
			continue
		}
		value, err := strconv.Atoi(given)
		if err != nil || value < 0 {
			return span{}, wire.Refusal(100, "%s must be a number, 0 or more; got %q", name, given)
		}
		*target = value
	}
	return read, nil
}

// checkNames refuses a query with a parameter that is not one of the names.
func checkNames(query url.Values, names ...string) error {
	for given := range query {
		if !slices.Contains(names, given) {
			return wire.Refusal(100, "there is no parameter %q; there are %v", given, names)
		}
	}
	return nil
}

// listEntries returns the entries of a log for which line returns true, newest first.
func listEntries[Entry, Line any](log *state.Ring[Entry], which span, line func(Entry) (Line, bool)) []Line {
	found := []Line{}
	for entry := range log.Newest {
		if len(found) == which.limit {
			break
		}
		shown, matches := line(entry)
		if !matches {
			continue
		}
		if which.skip--; which.skip < 0 {
			found = append(found, shown)
		}
	}
	return found
}

// equalOrEmpty tells whether a parameter of a query is not given, or equal to a value.
func equalOrEmpty(given, value string) bool { return given == "" || given == value }

// sentLine is an accepted send in an answer.
type sentLine struct {
	ID               string      `json:"id"`
	PhoneNumberID    string      `json:"phone_number_id"`
	To               string      `json:"to"`
	Type             string      `json:"type"`
	Opaque           string      `json:"opaque"`
	AcceptedAt       clock.Stamp `json:"accepted_at"`
	CallbacksDropped bool        `json:"callbacks_dropped,omitempty"`
}

// listSent lists the accepted sends.
func (s *Server) listSent(c *request) (any, error) {
	query := c.R.URL.Query()
	which, err := readSpan(query, "phone_number_id", "to", "opaque", "id")
	if err != nil {
		return nil, err
	}
	to, numberID, opaque, id := query.Get("to"), query.Get("phone_number_id"), query.Get("opaque"), query.Get("id")
	if digits, ok := wire.UserDigits(to); ok {
		to = digits
	}
	return object{"data": listEntries(s.Data.Sent, which, func(e state.SentEntry) (sentLine, bool) {
		return sentLine{e.ID, e.Number.ID, e.To, e.Kind, e.Opaque, clock.Stamp(e.AcceptedAt), e.CallbacksDropped},
			equalOrEmpty(to, e.To) && equalOrEmpty(numberID, e.Number.ID) && equalOrEmpty(opaque, e.Opaque) && equalOrEmpty(id, e.ID)
	})}, nil
}

// receiptLine is a read receipt in an answer.
type receiptLine struct {
	MessageID     string      `json:"message_id"`
	PhoneNumberID string      `json:"phone_number_id"`
	Typing        bool        `json:"typing"`
	At            clock.Stamp `json:"at"`
}

// listReceipts lists the read receipts of the business.
func (s *Server) listReceipts(c *request) (any, error) {
	query := c.R.URL.Query()
	which, err := readSpan(query, "phone_number_id", "message_id")
	if err != nil {
		return nil, err
	}
	numberID, messageID := query.Get("phone_number_id"), query.Get("message_id")
	return object{"data": listEntries(s.Data.Receipts, which, func(r state.Receipt) (receiptLine, bool) {
		return receiptLine{r.MessageID, r.Number.ID, r.Typing, clock.Stamp(r.At)},
			equalOrEmpty(numberID, r.Number.ID) && equalOrEmpty(messageID, r.MessageID)
	})}, nil
}

func (s *Server) readStats(*request) (any, error) { return s.Stats(), nil }

// callbackLine is a post of a callback in an answer.
type callbackLine struct {
	dispatcher.Attempt

	Body json.RawMessage `json:"body"`
}

// listCallbacks lists the latest posts of callbacks, newest first. With `latest` it lists only the latest post of each.
func (s *Server) listCallbacks(c *request) (any, error) {
	query := c.R.URL.Query()
	which, err := readSpan(query, "latest")
	if err != nil {
		return nil, err
	}
	seen := map[int64]bool{}
	return object{"data": listEntries(s.Data.Callbacks, which, func(a dispatcher.Attempt) (callbackLine, bool) {
		repeated := seen[a.ID]
		seen[a.ID] = true
		return callbackLine{a, a.Body}, !repeated || query.Get("latest") != "true"
	})}, nil
}
