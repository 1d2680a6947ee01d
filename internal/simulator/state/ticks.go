package state

import (
	"github.com/parley-chat/parley/internal/simulator/dispatcher"
)

// The statuses of a user's own message, beside sent, delivered and read.
const (
	tickWaiting  = "waiting"  // an app has not answered its callback yet
	tickRetrying = "retrying" // an app did not answer with 200; the callback will be posted again
	tickDropped  = "dropped"  // no app answered with 200, and no callback will be posted again
)

// appCallback is what became of the callback of a user's message to one URL. Its fate is empty until the first answer.
type appCallback struct {
	url     string
	attempt int
	fate    dispatcher.Fate
}

// lastCallback is the latest post of the callback of a user's message, for the page.
type lastCallback struct {
	Attempt int    `json:"attempt"` // 0: never posted
	Status  int    `json:"status"`  // of the answer; 0: no answer
	Error   string `json:"error,omitempty"`
}

// await adds a URL whose answer decides the ticks of a message. m may be nil.
func (m *ChatMessage) await(url string) {
	if m != nil {
		m.callbacks = append(m.callbacks, appCallback{url: url})
	}
}

// recordCallback is called by the dispatcher after each post.
func (s *Simulation) recordCallback(attempt dispatcher.Attempt) {
	s.Lock()
	defer s.Unlock()
	s.applyCallback(attempt)
}

// applyCallback keeps a post for GET /sim/callbacks, and updates the ticks of the messages in it. The caller holds
// the lock.
func (s *Simulation) applyCallback(attempt dispatcher.Attempt) {
	s.Data.Callbacks.Add(attempt)
	for _, id := range attempt.Messages {
		if m := s.Data.Messages[id]; m != nil && m.noteCallback(attempt) {
			s.updateTicks(m)
		}
	}
	s.Feed.Publish("callback", struct{}{})
}

// noteCallback stores the fate of a callback of a message. It returns false for a post that is older than the
// one that is known: posts of one callback may be recorded in any order.
func (m *ChatMessage) noteCallback(attempt dispatcher.Attempt) bool {
	for i := range m.callbacks {
		known := &m.callbacks[i]
		if known.url != attempt.URL || known.fate != "" && attempt.Attempt <= known.attempt {
			continue
		}
		known.attempt, known.fate = attempt.Attempt, attempt.Fate
		m.Callback = &lastCallback{Attempt: attempt.Attempt, Status: attempt.Status, Error: attempt.Error}
		return true
	}
	return false
}

// updateTicks sets the status of a user's message by what became of its callbacks, and updates the page. A message
// that the business has read stays read.
func (s *Simulation) updateTicks(m *ChatMessage) {
	if m.Status != "read" {
		m.Status = m.tick()
	}
	s.Feed.Publish("status", m)
}

// tick returns the status of a user's message. Without an app to notify, the message stays at the network: sent.
func (m *ChatMessage) tick() string {
	status := "sent"
	for _, c := range m.callbacks {
		switch {
		case c.fate == dispatcher.Retrying:
			return tickRetrying
		case c.fate == "":
			status = tickWaiting
		case status == tickWaiting:
		case c.fate == dispatcher.Answered:
			status = delivered
		case status == "sent":
			status = tickDropped
		}
	}
	return status
}
