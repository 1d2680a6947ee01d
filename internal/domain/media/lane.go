package media

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// LaneKind is the kind of the media lanes.
const LaneKind = "media"

const (
	// workers and slowWorkers are how many numbers a process fetches and uploads for at once, leastAtOnce and
	// mostAtOnce how many files of one of them. Each file may keep 5 MiB in memory.
	workers, slowWorkers    = 8, 8
	leastAtOnce, mostAtOnce = 2, 4
	// callTimeout bounds the work on one row: the download of a file, or the uploads of a message.
	callTimeout = 10 * time.Minute
)

func (s *Service) kind() lanes.Kind[*transfer, outcome] {
	return lanes.Kind[*transfer, outcome]{
		Name: LaneKind, Open: s.open, SetAside: s.setAside, Least: leastAtOnce, Most: mostAtOnce, Timeout: callTimeout + 10*time.Second,
		Workers: workers, SlowWorkers: slowWorkers,
	}
}

// transfer is a row of the lane: a file to fetch, or a message whose library files are to be uploaded.
type transfer struct {
	down *download
	up   *waiting

	number *provider.Number
}

func (t *transfer) account() accounts.ID {
	if t.down != nil {
		return t.down.AccountID
	}
	return t.up.AccountID
}

// outcome is what became of a transfer. gone says that it can never succeed.
type outcome struct {
	size     int64
	mimeType string
	err      error
	gone     bool
}

type (
	result = lanes.Result[*transfer, outcome]
	task   = lanes.Task[*transfer, outcome]
)

func (s *Service) open(_ context.Context, lane lanes.Lane) (lanes.Work[*transfer, outcome], error) {
	return lanes.Work[*transfer, outcome]{
		Read: func(ctx context.Context, tasks []*task) error { return s.read(ctx, lane, tasks) },
		Call: func(ctx context.Context, _ lanes.Row, one *transfer) lanes.Answer[outcome] {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			if one.up != nil {
				return lanes.Answer[outcome]{Value: s.uploadAll(ctx, lane.Org, one)}
			}
			return lanes.Answer[outcome]{Value: s.fetch(ctx, one)}
		},
		Settle: func(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch[*transfer, outcome]) error {
			return s.settle(ctx, tx, batch.Results)
		},
	}, nil
}

// read finds what rows are about. A row of which nothing is found leaves the lane: its number was purged, or its
// message erased.
func (s *Service) read(ctx context.Context, lane lanes.Lane, tasks []*task) error {
	found, err := transfersByID(ctx, s.work.Of(lane.Org), lanes.RowIDs(tasks))
	if err != nil {
		return err
	}
	numbers := map[accounts.ID]*provider.Number{}
	for _, task := range tasks {
		one := found[task.Row.ID]
		if one == nil {
			task.Answer(lanes.Answer[outcome]{})
			continue
		}
		of := one.account()
		if _, known := numbers[of]; !known {
			if numbers[of], err = s.number(ctx, lane, of); err != nil {
				return err
			}
		}
		if one.number = numbers[of]; one.number == nil {
			task.Answer(lanes.Answer[outcome]{}) // its purge is under way
			continue
		}
		task.Value = one
	}
	return nil
}

// number is the number as the provider is called for it; nil if it was disconnected.
func (s *Service) number(ctx context.Context, lane lanes.Lane, id accounts.ID) (*provider.Number, error) {
	account, err := s.accounts.Get(ctx, lane.Org, id)
	if fault.Of(err) == fault.ResourceNotFound {
		return nil, nil //nolint:nilnil // there is none, and that is no failure
	}
	if err != nil {
		return nil, err
	}
	number, err := s.accounts.Number(lane.Org, account)
	return &number, err
}

// settle writes what became of transfers, tells the owner, and has the others tried again.
func (s *Service) settle(ctx context.Context, tx *postgres.Tx, results []result) error {
	var downloads, uploads []*result
	for i := range results {
		one := &results[i]
		if one.Task == nil || one.Outcome == lanes.Postponed {
			continue
		}
		if one.Task.up != nil {
			uploads = append(uploads, one)
		} else {
			downloads = append(downloads, one)
		}
	}
	if len(downloads)+len(uploads) == 0 {
		return nil
	}
	all := slices.Concat(downloads, uploads)
	rows := postgres.Each(all, func(r *result) ids.Any { return r.Row.ID })
	return s.lockedTx(ctx, tx, all[0].Task.account(), rows, effectOf(uploads), func(of accounts.Account) error {
		if err := s.settleUploads(ctx, tx, of, uploads); err != nil {
			return err
		}
		return s.settleDownloads(ctx, tx, of, downloads)
	})
}

// lockedTx locks messages of a number, writes what a failure says about the number (nil says nothing), and calls do. It does nothing
// if the number was disconnected: its purge is under way.
func (s *Service) lockedTx(
	ctx context.Context, tx *postgres.Tx, of accounts.ID, messages []ids.Any, about *provider.Error, do func(accounts.Account) error,
) error {
	account, err := s.accounts.GetTx(ctx, tx, of)
	if fault.Of(err) == fault.ResourceNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.owner.Lock(ctx, tx, account, messages, about); err != nil {
		return err
	}
	return do(account)
}

// setAside gives up files that could not be handled.
func (s *Service) setAside(ctx context.Context, tx *postgres.Tx, _ lanes.Lane, rows []lanes.Aside[*transfer]) error {
	found, err := transfersByID(ctx, tx, postgres.Each(rows, func(row lanes.Aside[*transfer]) ids.Any { return row.Row.ID }))
	if err != nil || len(found) == 0 {
		return err
	}
	var of accounts.ID
	var downloads []*download
	var uploads []Released
	for _, one := range found {
		of = one.account()
		if one.up != nil {
			uploads = append(uploads, one.up.released(&provider.Error{
				Code: provider.MediaUploadFailed, Title: "The files of the message could not be handled.",
			}))
		} else {
			downloads = append(downloads, one.down)
		}
	}
	return s.lockedTx(ctx, tx, of, slices.Collect(maps.Keys(found)), nil, func(of accounts.Account) error {
		if err := s.handBackTx(ctx, tx, of, uploads); err != nil {
			return err
		}
		return s.endDownloadsTx(ctx, tx, of, postgres.Each(downloads, func(d *download) Outcome { return d.outcome(Failed) }), downloads, nil)
	})
}
