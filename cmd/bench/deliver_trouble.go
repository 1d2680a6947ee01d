package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	troublePending = 100_000
	troubleSpan    = 10 * time.Second
	slowAnswer     = 5 * time.Second
	recordAtOnce   = 1_000

	// What the healthy endpoint gets beside the changes that are measured; the dead and the
	// slow one want others.
	replayedType, deadType, slowType = events.MessageSent, events.MessageRevoked, events.MessageEdited
)

// benchTrouble measures a healthy endpoint with and without a dead one that has 100,000
// deliveries waiting and a slow one beside it, and with and without a bulk replay of as
// many of its own.
func benchTrouble(ctx context.Context, given deliverOptions, figures *deliverFigures) error {
	var isolated, replayed []float64
	for round := range deliverRounds {
		alone, err := troubled(ctx, given, (*house).untroubled)
		if err != nil {
			return err
		}
		beside, err := troubled(ctx, given, (*house).deadAndSlow)
		if err != nil {
			return err
		}
		during, err := troubled(ctx, given, (*house).bulkReplay)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "trouble, round %d: alone %s; beside a dead and a slow one %s; during a bulk replay %s\n",
			round+1, alone, beside, during)
		isolated, replayed = append(isolated, beside.p99/alone.p99), append(replayed, during.p99/alone.p99)
	}
	isolation, replay := rounded(median(isolated)), rounded(median(replayed))
	figures.Isolation, figures.Replay = &isolation, &replay
	return nil
}

// troubled prepares a house, runs it, and measures its healthy endpoint.
func troubled(
	ctx context.Context, given deliverOptions, prepare func(*house, context.Context, int) (begin func() error, err error),
) (spread, error) {
	h, err := openHouse(ctx, given)
	if err != nil {
		return spread{}, err
	}
	defer h.stop()
	if err := h.subscribe(ctx, h.org, 1); err != nil {
		return spread{}, err
	}
	begin, err := prepare(h, ctx, given.many(troublePending))
	if err != nil {
		return spread{}, err
	}
	stop, err := h.run(ctx, app.Roles{Serve: true, Work: true})
	if err != nil {
		return spread{}, err
	}
	defer stop()
	if err := h.warm(ctx, 1); err != nil {
		return spread{}, err
	}
	if err := begin(); err != nil {
		return spread{}, err
	}
	return h.latency(ctx, troubleSpan)
}

func nothing() error { return nil }

func (h *house) untroubled(context.Context, int) (func() error, error) { return nothing, nil }

// deadAndSlow has one endpoint that never answers and one that takes its time, each with
// deliveries of an event that only they want.
func (h *house) deadAndSlow(ctx context.Context, pending int) (func() error, error) {
	for answer, of := range map[time.Duration]events.Type{time.Hour: deadType, slowAnswer: slowType} {
		url, stop, err := serve(ctx, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			select {
			case <-request.Context().Done():
			case <-time.After(answer):
			}
		}))
		if err != nil {
			return nil, err
		}
		h.undo = append(h.undo, stop)
		if _, err := h.cell.Webhooks.Create(ctx, h.org, webhooks.Draft{URL: "http://" + url, Events: []events.Type{of}}); err != nil {
			return nil, err
		}
		if err := h.recordMany(ctx, of, pending); err != nil {
			return nil, err
		}
	}
	return nothing, nil
}

func (h *house) recordMany(ctx context.Context, of events.Type, count int) error {
	for ; count > 0; count -= recordAtOnce {
		_, err := postgres.InTx(ctx, h.cell.DB, h.org, func(tx *postgres.Tx) (int, error) {
			for i := range min(count, recordAtOnce) {
				draft := events.Draft{Type: of, Subject: ids.NewOrg(time.Now()).Any(), Body: bodyOf(i), Key: "bench"}
				if err := h.cell.Events.RecordTx(tx, draft); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bulkReplay has as many dead deliveries of the healthy endpoint replayed while it is measured.
func (h *house) bulkReplay(ctx context.Context, pending int) (func() error, error) {
	if err := h.recordMany(ctx, replayedType, pending); err != nil {
		return nil, err
	}
	for _, sql := range []string{
		`UPDATE webhook_deliveries SET status = 'dead', troubled = true`, `DELETE FROM lane_rows`,
		`VACUUM ANALYZE webhook_deliveries`,
	} {
		if _, err := h.cell.DB.Pool().Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	return func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/webhook_deliveries/replay", bytes.NewReader([]byte(`{}`)))
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+h.keys[0])
		request.Header.Set("Content-Type", "application/json")
		response, err := (&http.Client{}).Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("answered %s", response.Status)
		}
		return response.Body.Close()
	}, nil
}
