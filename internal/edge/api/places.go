package api

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/parley-chat/parley/internal/domain/orgs"
)

// places limits how many requests of a kind run at once in a process, and how many of one organization. Further
// requests wait.
type places struct {
	all    *semaphore.Weighted
	perOrg int64
	// wait is how long a request waits for a place.
	wait time.Duration

	mu    sync.Mutex
	byOrg map[orgs.ID]*orgPlaces
}

// orgPlaces are the places of an organization. users counts the requests that have or want one.
type orgPlaces struct {
	places *semaphore.Weighted
	users  int
}

func newPlaces(all, perOrg int64, wait time.Duration) *places {
	return &places{all: semaphore.NewWeighted(all), perOrg: perOrg, wait: wait, byOrg: map[orgs.ID]*orgPlaces{}}
}

// enter waits for a place, and returns false if none becomes free in time. The caller calls leave when it does not need
// the place any more.
func (p *places) enter(ctx context.Context, org orgs.ID) (leave func(), entered bool) {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	own := p.retain(org)
	if own.places.Acquire(ctx, 1) != nil {
		p.release(org, own)
		return nil, false
	}
	if p.all.Acquire(ctx, 1) != nil {
		own.places.Release(1)
		p.release(org, own)
		return nil, false
	}
	return func() {
		p.all.Release(1)
		own.places.Release(1)
		p.release(org, own)
	}, true
}

func (p *places) retain(org orgs.ID) *orgPlaces {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.byOrg[org]
	if own == nil {
		own = &orgPlaces{places: semaphore.NewWeighted(p.perOrg)}
		p.byOrg[org] = own
	}
	own.users++
	return own
}

func (p *places) release(org orgs.ID, own *orgPlaces) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(p.byOrg, org)
	}
}
