package graph

import (
	"net/http"
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
)

// scriptedAnswer is an answer whose outcome is forced.
type scriptedAnswer struct {
	outcome state.Outcome
	body    any
}

// runScripted runs an operation other than a send, and disturbs it as the first matching script says. A
// script that refuses keeps the operation from running. Any other lets it run: then only its answer is late,
// lost or garbage. An operation that fails by itself answers its own error.
func (s *Server) runScripted(c *call, edge string, handle handler) (any, error) {
	forced, found := s.matchEdge(c, edge)
	if !found {
		return handle(s, c)
	}
	var answer any
	if !forced.Prevents() {
		var err error
		if answer, err = handle(s, c); err != nil {
			return nil, err
		}
	}
	if err := s.delay(c, forced); err != nil {
		return nil, err
	}
	return &scriptedAnswer{outcome: forced, body: answer}, nil
}

// matchEdge returns the outcome of the script that matches an operation other than a send.
func (s *Server) matchEdge(c *call, edge string) (state.Outcome, bool) {
	if edge == "" {
		return state.Outcome{}, false
	}
	s.Lock()
	defer s.Unlock()
	operation := state.Operation{Edge: edge}
	if c.number != nil {
		operation.PhoneNumberID = c.number.ID
	}
	return s.Data.MatchScript(operation)
}

// delay waits for the latency and returns the error of an outcome.
func (s *Server) delay(c *call, forced state.Outcome) error {
	if forced.LatencyMS > 0 {
		timer := time.NewTimer(time.Duration(forced.LatencyMS) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.R.Context().Done(): // the client disconnected; an accepted send stays accepted
		}
	}
	return forced.Refusal()
}

// writeScripted cuts the connection, writes garbage, or answers as usual.
func (s *Server) writeScripted(c *call, r *scriptedAnswer) {
	switch {
	case r.outcome.DropAnswer || r.outcome.DropRequest:
		panic(http.ErrAbortHandler) // net/http closes the connection without an answer
	case r.outcome.Garbage:
		c.W.Header().Set("Content-Type", "application/json")
		if r.outcome.HTTPStatus != 0 {
			c.W.WriteHeader(r.outcome.HTTPStatus)
		}
		_, _ = c.W.Write([]byte(`{"messaging_product":"whatsapp","contacts":[{"inp` + "\x00\xff<html>"))
	default:
		s.write(c, r.body)
	}
}
