package lanes

import (
	"slices"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// busy remembers lanes that were seen armed a moment ago. Their rows are sent with the
// commit, without asking first: if the lane was disarmed meanwhile, the look that follows
// the commit wakes it, as it does when that happens after asking.
type busy struct {
	mu    sync.Mutex
	lanes map[ids.Any]seenBusy
	// orgs are organizations all of whose lanes that were last added to were armed.
	orgs map[orgKind]time.Time
}

type seenBusy struct {
	org  ids.Org
	kind string
	at   time.Time
}

const (
	// busyFor is how long a lane is believed to be armed.
	busyFor  = 250 * time.Millisecond
	mostBusy = 10_000
)

// all tells that every lane was just seen armed, and that it is of this kind and
// organization.
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

// org tells that the lanes to which the organization last added were just seen armed.
func (b *busy) org(now time.Time, of orgKind) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, known := b.orgs[of]
	return known && now.Sub(at) <= busyFor
}

// learnOrg is for lanes that one statement of an organization added to.
func (b *busy) learnOrg(now time.Time, of orgKind, states []laneState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.orgs == nil || len(b.orgs) > mostBusy {
		b.orgs = map[orgKind]time.Time{}
	}
	if slices.ContainsFunc(states, func(s laneState) bool { return !s.Armed }) {
		delete(b.orgs, of)
	} else {
		b.orgs[of] = now
	}
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
func (b *busy) forget(lane Lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.lanes, lane.ID)
	delete(b.orgs, orgKind{lane.Org, lane.Kind})
}
