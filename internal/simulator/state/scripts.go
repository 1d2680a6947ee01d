package state

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Outcome is the result that a script or a reserved number forces on a call.
type Outcome struct {
	SyncCode    *int   `json:"sync_code"`    // error code of the answer; nil: none (0 is a code)
	HTTPStatus  int    `json:"http_status"`  // of the answer, 400 to 599; 0: the usual one
	AsyncCode   int    `json:"async_code"`   // error code of a failed status; 0: none
	LatencyMS   int    `json:"latency_ms"`   // before the answer, in milliseconds; statuses do not wait for it
	DropAnswer  bool   `json:"drop_answer"`  // the call takes effect, and the connection is cut
	DropRequest bool   `json:"drop_request"` // the connection is cut, and nothing takes effect
	Garbage     bool   `json:"garbage"`      // the call takes effect; the answer is not JSON, with HTTPStatus or 200
	Held        bool   `json:"held"`         // held for quality assessment before the first status
	NoStatus    bool   `json:"no_status"`    // no statuses
	Twice       bool   `json:"twice"`        // each status twice
	Last        string `json:"last_status"`  // the last status to be reported; empty: read
	Details     string `json:"details"`      // text of the error; empty: the default one
}

// check refuses values that are out of range, and fields that contradict each other.
func (o Outcome) check() error {
	refuses := o.SyncCode != nil || o.HTTPStatus != 0 && !o.Garbage
	accepts := o.DropAnswer || o.Garbage || o.AsyncCode != 0
	switch {
	case o.HTTPStatus != 0 && (o.HTTPStatus < 400 || o.HTTPStatus > 599):
		return wire.Refusal(100, "http_status must be between 400 and 599; got %d", o.HTTPStatus)
	case o.LatencyMS < 0:
		return wire.Refusal(100, "latency_ms must be 0 or more; got %d", o.LatencyMS)
	case o.Last != "" && o.Last != "sent" && o.Last != delivered && o.Last != "read":
		return wire.Refusal(100, "last_status must be sent, delivered or read; got %q", o.Last)
	case accepts && (refuses || o.DropRequest):
		return wire.Refusal(100, "drop_answer, garbage and async_code let the call take effect; "+
			"they cannot be combined with sync_code, drop_request, or an http_status without garbage")
	}
	return nil
}

// Refusal returns the error that the outcome forces as the answer, nil without one.
func (o Outcome) Refusal() error {
	if o.DropRequest || o.Garbage {
		return nil
	}
	code := 1
	switch {
	case o.SyncCode != nil:
		code = *o.SyncCode
	case o.HTTPStatus < http.StatusBadRequest:
		return nil
	case o.HTTPStatus == http.StatusTooManyRequests:
		code = 4
	case o.HTTPStatus >= http.StatusInternalServerError:
		code = 2
	}
	refusal := wire.Refusal(code, "%s", o.ErrorText())
	if o.HTTPStatus != 0 {
		refusal.HTTP = o.HTTPStatus
	}
	return refusal
}

// Prevents tells whether the call takes no effect: its answer is an error, or the connection is cut before.
func (o Outcome) Prevents() bool { return o.DropRequest || o.Refusal() != nil }

// forSendsOnly tells whether the outcome has a field about statuses, which only sends have.
func (o Outcome) forSendsOnly() bool {
	return o.AsyncCode != 0 || o.Held || o.NoStatus || o.Twice || o.Last != ""
}

// ErrorText returns the details of the forced error.
func (o Outcome) ErrorText() string {
	if o.Details != "" {
		return o.Details
	}
	return "forced by the simulator"
}

// Script forces an outcome on the calls that match. Without an edge it matches sends.
type Script struct {
	ID    string `json:"id"`
	Match struct {
		To            string `json:"to"`
		PhoneNumberID string `json:"phone_number_id"`
		Template      string `json:"template"`
		Edge          string `json:"edge"`
	} `json:"match"`
	Outcome Outcome `json:"outcome"`
	Times   *int    `json:"times,omitempty"` // how often it is still used; nil: until the reset
}

// Check refuses outcomes that are not valid, or that the matched operation cannot have.
func (s Script) Check() error {
	if s.Match.Edge != "" && s.Outcome.forSendsOnly() {
		return wire.Refusal(100, "async_code, held, no_status, twice and last_status are for sends; leave match.edge out; got %q", s.Match.Edge)
	}
	if s.Times != nil && *s.Times < 1 {
		return wire.Refusal(100, "times must be at least 1; got %d", *s.Times)
	}
	return s.Outcome.check()
}

// Operation is what a script is matched against.
type Operation struct{ To, PhoneNumberID, Template, Edge string }

// MatchScript returns the outcome of the first script that matches, and counts the use.
func (d *Data) MatchScript(o Operation) (Outcome, bool) {
	for i, candidate := range d.Scripts {
		match := candidate.Match
		matches := func(wanted, given string) bool { return wanted == "" || wanted == given }
		if !matches(match.To, o.To) || !matches(match.PhoneNumberID, o.PhoneNumberID) || !matches(match.Template, o.Template) ||
			match.Edge != o.Edge {
			continue
		}
		if candidate.Times != nil {
			if *candidate.Times--; *candidate.Times <= 0 {
				d.Scripts = append(d.Scripts[:i:i], d.Scripts[i+1:]...)
			}
		}
		return candidate.Outcome, true
	}
	return Outcome{}, false
}

// ReservedOutcome returns the outcome that a recipient's number stands for: see the doc of
// package simulator.
func ReservedOutcome(digits string) Outcome {
	rest, found := strings.CutPrefix(digits, "1555")
	if !found || len(rest) != 7 {
		return Outcome{}
	}
	value, err := strconv.Atoi(rest[1:])
	if err != nil {
		return Outcome{}
	}
	switch rest[0] {
	case '4':
		return Outcome{SyncCode: &value}
	case '2':
		return Outcome{AsyncCode: value}
	case '9':
		if value >= 400 && value < 600 {
			return Outcome{HTTPStatus: value}
		}
		return specialOutcomes[value]
	default:
		return Outcome{}
	}
}

// specialOutcomes are those of the numbers +1 555 9 00000N.
var specialOutcomes = map[int]Outcome{
	1: {Held: true}, 2: {Held: true, AsyncCode: 132015}, 3: {DropAnswer: true}, 4: {Garbage: true}, 5: {LatencyMS: 5000},
	6: {NoStatus: true}, 7: {Twice: true}, 8: {Last: "sent"}, 9: {Last: delivered},
}
