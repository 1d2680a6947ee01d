package simulator

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// outcome is what a script or a reserved number makes of a call.
type outcome struct {
	SyncCode   *int `json:"sync_code"` // 0 is a code
	HTTPStatus int  `json:"http_status"`
	AsyncCode  int  `json:"async_code"`
	LatencyMS  int  `json:"latency_ms"`
	DropAnswer bool `json:"drop_answer"`
	Garbage    bool `json:"garbage"`
	// DropRequest cuts the connection before anything happened.
	DropRequest bool `json:"drop_request"`
	Held        bool `json:"held"`
	NoStatus    bool `json:"no_status"`
	Twice       bool `json:"twice"`
	// Last is the last status to be reported.
	Last string `json:"last_status"`
	// Details replaces the words of an error.
	Details string `json:"details"`
}

// refusal is the error that the outcome forces at the answer, if any.
func (o outcome) refusal() error {
	if o.DropRequest {
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
	refusal := wire.Refusal(code, "%s", o.words("forced by the simulator"))
	if o.HTTPStatus != 0 {
		refusal.HTTP = o.HTTPStatus
	}
	return refusal
}

// refuses tells whether the answer will be an error.
func (o outcome) refuses() bool { return o.refusal() != nil }

func (o outcome) words(otherwise string) string {
	if o.Details != "" {
		return o.Details
	}
	return otherwise
}

// script makes some calls end otherwise. Without an edge it is about sends.
type script struct {
	ID    string `json:"id"`
	Match struct {
		To            string `json:"to"`
		PhoneNumberID string `json:"phone_number_id"`
		Template      string `json:"template"`
		Edge          string `json:"edge"`
	} `json:"match"`
	Outcome outcome `json:"outcome"`
	Times   *int    `json:"times,omitempty"` // how often still; nil: until the reset
}

// attempt is what scripts look at.
type attempt struct{ to, phoneNumberID, template, edge string }

// outcomeOf finds the first script that fits, and uses it up once.
func (w *world) outcomeOf(a attempt) (outcome, bool) {
	for i, candidate := range w.scripts {
		match := candidate.Match
		fits := func(wanted, given string) bool { return wanted == "" || wanted == given }
		if !fits(match.To, a.to) || !fits(match.PhoneNumberID, a.phoneNumberID) || !fits(match.Template, a.template) || match.Edge != a.edge {
			continue
		}
		if candidate.Times != nil {
			if *candidate.Times--; *candidate.Times <= 0 {
				w.scripts = append(w.scripts[:i:i], w.scripts[i+1:]...)
			}
		}
		return candidate.Outcome, true
	}
	return outcome{}, false
}

// reserved reads an outcome out of a recipient's number; see the package's promise.
func reserved(digits string) outcome {
	rest, found := strings.CutPrefix(digits, "1555")
	if !found || len(rest) != 7 {
		return outcome{}
	}
	value, err := strconv.Atoi(rest[1:])
	if err != nil {
		return outcome{}
	}
	switch rest[0] {
	case '4':
		return outcome{SyncCode: &value}
	case '2':
		return outcome{AsyncCode: value}
	case '9':
		return special(value)
	default:
		return outcome{}
	}
}

func special(value int) outcome {
	switch value {
	case 1:
		return outcome{Held: true}
	case 2:
		return outcome{Held: true, AsyncCode: 132015}
	case 3:
		return outcome{DropAnswer: true}
	case 4:
		return outcome{Garbage: true}
	case 5:
		return outcome{LatencyMS: 5000}
	case 6:
		return outcome{NoStatus: true}
	case 7:
		return outcome{Twice: true}
	case 8:
		return outcome{Last: "sent"}
	case 9:
		return outcome{Last: "delivered"}
	}
	if value >= 400 && value < 600 {
		return outcome{HTTPStatus: value}
	}
	return outcome{}
}

// reply is an answer that does not simply go out.
type reply struct {
	outcome outcome
	body    any
}

// scripted lets scripts speak about operations other than a send.
func (s *Simulator) scripted(c *call, edge string) (any, error) {
	s.mu.Lock()
	forced, found := outcome{}, false
	if edge != "" && len(s.world.scripts) > 0 {
		a := attempt{edge: edge}
		if c.number != nil {
			a.phoneNumberID = c.number.ID
		}
		forced, found = s.world.outcomeOf(a)
	}
	s.mu.Unlock()
	if !found {
		return nil, nil //nolint:nilnil // nobody spoke
	}
	if err := s.delay(c, forced); err != nil {
		return nil, err
	}
	return &reply{outcome: forced, body: success()}, nil
}

// delay lets the latency pass and then refuses, if the outcome says so.
func (s *Simulator) delay(c *call, forced outcome) error {
	if forced.LatencyMS > 0 {
		timer := time.NewTimer(time.Duration(forced.LatencyMS) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.r.Context().Done(): // the client gave up; what was accepted stays accepted
		}
	}
	return forced.refusal()
}

// play answers as the outcome wants: not at all, with garbage, or as usual.
func (s *Simulator) play(c *call, r *reply) {
	switch {
	case r.outcome.DropAnswer || r.outcome.DropRequest:
		panic(http.ErrAbortHandler) // the server's way to cut a connection without a word
	case r.outcome.Garbage:
		c.w.Header().Set("Content-Type", "application/json")
		_, _ = c.w.Write([]byte(`{fieldProduct:"whatsapp",fieldContacts:[{"inp` + "\x00\xff<html>"))
	default:
		wire.Answer(c.w, http.StatusOK, r.body)
	}
}
