package lanes

import (
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// busy remembers lanes that were seen armed a moment ago, so that their rows can be sent
// together with the commit, which saves a round trip.
type busy struct {
	mu    sync.Mutex
	lanes map[ids.Any]seenBusy
}

type seenBusy struct {
	org  ids.Org
	kind string
	at   time.Time
}

const (
	// busyFor is how long a lane is believed to be armed.
	busyFor = 250 * time.Millisecond
	// mostBusy bounds the memory; beyond it all lanes are forgotten.
	mostBusy = 10_000
)

// all tells that every lane was just seen armed, and that it is of this kind and organization.
func (b *busy) all(now time.Time, org ids.Org, kinds map[ids.Any]string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for lane, kind := range kinds {
		seen, known := b.lanes[lane]
		if !known || seen.kind != kind || (!org.IsZero() && seen.org != org) || now.Sub(seen.at) > busyFor {
			return false
		}
	}
	return true
}

func (b *busy) learn(now time.Time, states []laneState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lanes == nil || len(b.lanes) > mostBusy {
		b.lanes = map[ids.Any]seenBusy{}
	}
	for _, state := range states {
		if state.Armed {
			b.lanes[state.LaneID] = seenBusy{org: state.OrgID, kind: state.Kind, at: now}
		} else {
			delete(b.lanes, state.LaneID)
		}
	}
}

// forget is for a lane that was disarmed here.
func (b *busy) forget(lane ids.Any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.lanes, lane)
}
