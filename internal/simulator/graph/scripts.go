package graph

import (
	"net/http"
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// scriptedAnswer is an answer whose outcome is forced.
type scriptedAnswer struct {
	outcome state.Outcome
	body    any
}

// applyScript returns the answer that a script forces on an operation other than a send, nil
// without a script.
func (s *Server) applyScript(c *call, edge string) (any, error) {
	s.Lock()
	forced, found := state.Outcome{}, false
	if edge != "" && len(s.Data.Scripts) > 0 {
		operation := state.Operation{Edge: edge}
		if c.number != nil {
			operation.PhoneNumberID = c.number.ID
		}
		forced, found = s.Data.MatchScript(operation)
	}
	s.Unlock()
	if !found {
		return nil, nil //nolint:nilnil // no script matches
	}
	if err := s.delay(c, forced); err != nil {
		return nil, err
	}
	return &scriptedAnswer{outcome: forced, body: wire.Success()}, nil
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
		wire.Answer(c.W, http.StatusOK, r.body)
	}
}
