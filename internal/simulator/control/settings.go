package control

import (
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

func (s *Server) addScript(c *request) (any, error) {
	added := &state.Script{}
	if err := c.into(added); err != nil {
		return nil, err
	}
	if to := added.Match.To; to != "" {
		digits, ok := wire.UserDigits(to)
		if !ok {
			return nil, wire.Refusal(100, "match.to must be a phone number; got %q", to)
		}
		added.Match.To = digits
	}
	if err := added.Check(); err != nil {
		return nil, err
	}
	if len(s.Data.Scripts) >= state.MaxScripts {
		return nil, wire.Refusal(100, "there are %d scripts already", state.MaxScripts)
	}
	added.ID = s.Data.NextID(9)
	s.Data.Scripts = append(s.Data.Scripts, added)
	return object{"id": added.ID}, nil
}

func (s *Server) listScripts(*request) (any, error) {
	listed := s.Data.Scripts
	if listed == nil {
		listed = []*state.Script{}
	}
	return object{"data": json.RawMessage(wire.Encode(listed))}, nil // encoded under the lock
}

func (s *Server) clearScripts(*request) (any, error) {
	s.Data.Scripts = nil
	return wire.Success(), nil
}

func (s *Server) readSettings(*request) (any, error) { return s.Data.Settings, nil }

func (s *Server) changeSettings(c *request) (any, error) {
	changed := s.Data.Settings
	if err := c.into(&changed); err != nil {
		return nil, err
	}
	if err := changed.Check(); err != nil {
		return nil, err
	}
	s.Data.Settings = changed
	s.Feed.PublishState()
	return changed, nil
}

func (s *Server) reset(c *request) (any, error) {
	if err := c.into(&struct{}{}); err != nil {
		return nil, err
	}
	s.Reset()
	return wire.Success(), nil
}

// advanceClock moves the clock: windows close, URLs expire, scheduled functions run.
func (s *Server) advanceClock(c *request) (any, error) {
	var body struct {
		AdvanceSeconds float64 `json:"advance_seconds"`
	}
	if err := c.into(&body); err != nil {
		return nil, err
	}
	s.Counters.Skew.Add(int64(body.AdvanceSeconds * float64(time.Second)))
	s.Scheduler.Recheck()
	s.Feed.PublishState()
	return object{"now": clock.Stamp(s.Now())}, nil
}
