package simulator

import (
	"time"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// source is the id or the link that a message's file comes from.
func source(m *message) (id, link string) {
	if !content.IsMedia(m.kind) {
		return "", ""
	}
	of, _ := m.content.(object)
	id, _ = of["id"].(string)
	link, _ = of["link"].(string)
	return id, link
}

// usableMedia refuses an id that this number never uploaded, or whose file does not fit.
func (s *Simulator) usableMedia(n *number, m *message, now time.Time) error {
	id, _ := source(m)
	if id == "" {
		return nil
	}
	found := s.world.media.find(id, now)
	if found == nil || found.number != n.ID {
		return wire.Refusal(100, "Param %s['id'] is not a valid whatsapp business account media attachment ID", m.kind)
	}
	if problem := content.Fits(m.kind, found.Mime, found.size()); problem != "" {
		return wire.Refusal(131053, "%s", problem)
	}
	return nil
}
