package quota

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Flush adds to the rows what this process has counted, and returns allowances that it does not
// use. The error is that of one organization; the others are flushed all the same.
func (s *Service) Flush(ctx context.Context) error {
	now := s.clock.Now()
	var due []key
	s.mu.Lock()
	for k, c := range s.counters {
		switch {
		case c.idle(now):
			delete(s.counters, k)
		case c.flight == nil && c.unflushed(now):
			due = append(due, k)
		}
	}
	s.mu.Unlock()
	return s.flushEach(ctx, due)
}

// Close flushes everything and returns all allowances. The process calls it when it stops, after
// the last Reserve.
func (s *Service) Close(ctx context.Context) error {
	var all []key
	s.mu.Lock()
	for k, c := range s.counters {
		c.countUntil = time.Time{}
		all = append(all, k)
	}
	s.mu.Unlock()
	return s.flushEach(ctx, all)
}

func (s *Service) flushEach(ctx context.Context, keys []key) error {
	var group errgroup.Group
	group.SetLimit(flushesAtOnce)
	var failed atomic.Int64
	for _, k := range keys {
		group.Go(func() error {
			err := s.flushOne(ctx, k)
			if err != nil {
				failed.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("the counts of %d of %d organizations were not flushed: %w", failed.Load(), len(keys), err)
	}
	return nil
}

// flushOne flushes a counter, after the flush that is under way. It asks for a new allowance if the
// process still counts by the old one.
func (s *Service) flushOne(ctx context.Context, k key) error {
	for {
		now := s.clock.Now()
		s.mu.Lock()
		c, found := s.counters[k]
		if !found || c.flight == nil && !c.unflushed(now) {
			s.mu.Unlock()
			return nil
		}
		if f := c.flight; f != nil {
			s.mu.Unlock()
			<-f.done
			continue
		}
		size := int64(0)
		if now.Before(c.countUntil) {
			size = sizeOf(c.limit)
		}
		f := c.start(c.limit, size)
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		s.fly(ctx, s.work, k, f)
		return f.err
	}
}

// fly runs a flight. If no allowance was granted, it flushes once more: what was counted during
// the first flush, and the return of the old allowance.
func (s *Service) fly(ctx context.Context, db *postgres.DB, k key, f *flight) {
	for again := true; again; {
		now := s.clock.Now()
		s.mu.Lock()
		c := s.counters[k]
		asked := c.depart(now, s.process)
		s.mu.Unlock()
		var got result
		got, f.err = flushMonth(ctx, db, k, asked)
		s.mu.Lock()
		forgotten := c.arrive(asked, got, f.err)
		again = again && f.err == nil && !got.granted && f.size > 0 && (c.pending != 0 || c.allowance > 0)
		if f.size = 0; !again {
			c.flight = nil
		}
		s.mu.Unlock()
		if forgotten != 0 {
			s.logger.WarnContext(ctx, "quota.forgotten", "org", k.org, "messages", forgotten, "error", f.err)
		}
	}
	close(f.done)
}
