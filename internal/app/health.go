package app

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

const readyTimeout = 2 * time.Second

// operator serves health, readiness and metrics on a listener that only operators can reach.
func (a *App) operator() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, status{Status: "ok", Version: Version})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		body := a.cells.health(ctx)
		code := http.StatusOK
		if !slices.Contains(slices.Collect(maps.Values(body.Cells)), ready) {
			code, body.Status = http.StatusServiceUnavailable, "not ready"
		}
		if a.draining.Load() {
			code, body.Status = http.StatusServiceUnavailable, "stopping"
		}
		writeJSON(w, code, body)
	})
	mux.Handle("GET /metrics", a.metrics.Handler())
	return mux
}

type status struct {
	Status  string            `json:"status"`
	Version string            `json:"version"`
	Cells   map[string]string `json:"cells,omitempty"`
	// Directory is "ready", or why the directory cannot be used; empty if it shares a cell's database. A process is
	// ready without it: it serves the keys that it has cached.
	Directory string `json:"directory,omitempty"`
	// Warnings do not keep the process from being ready.
	Warnings map[string]string `json:"warnings,omitempty"`
	// held and unworked are the warnings, by cell.
	held, unworked map[string]string
}

const ready = "ready"

func writeJSON(w http.ResponseWriter, code int, body status) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	encoded, _ := json.Marshal(body)      //nolint:errchkjson // strings always encode
	_, _ = w.Write(append(encoded, '\n')) // fails only when the caller has closed the connection
}

// health checks the directory and all cells at the same time. A process is ready while one of its cells is ready;
// requests to the other cells answer 503.
func (c *Cells) health(ctx context.Context) status {
	var mu sync.Mutex
	var asked sync.WaitGroup
	found := status{
		Status: ready, Version: Version, Cells: map[string]string{}, Warnings: map[string]string{},
		held: map[string]string{}, unworked: map[string]string{},
	}
	if !c.directoryShared {
		asked.Go(func() {
			found.Directory = ready
			if wrong := c.directory.problem(ctx); wrong != nil {
				found.Directory = wrong.Error()
			}
		})
	}
	for name, cell := range c.all {
		asked.Go(func() {
			state, held, unworked := cmp.Or(cell.unready(ctx), ready), "", ""
			if state == ready {
				held, unworked = cell.heldWarning(ctx), cell.unworked(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			found.Cells[name], found.held[name], found.unworked[name] = state, held, unworked
			if held != "" || unworked != "" {
				found.Warnings[name] = strings.Trim(held+"; "+unworked, "; ")
			}
		})
	}
	asked.Wait()
	return found
}

// unworked returns a warning if no process does the background work of the cell, else "".
func (c *Cell) unworked(ctx context.Context) string {
	worked, err := jobs.Worked(ctx, c.upkeepDB, c.clock.Now())
	if err != nil || worked {
		return ""
	}
	return noWorker + ": " + startWorker
}

const (
	noWorker    = "no worker is alive, so nothing is sent, received or delivered"
	startWorker = "run `parley work`"
)

const (
	// watchFirst is how long a process has to become ready before the log says why it is not.
	watchFirst = time.Second
	watchEvery = 10 * time.Second
)

// keepWatch logs why the directory or a cell is not ready, and that a cell is on hold, until ctx ends. A process that does
// not work itself also logs that no process does.
func (c *Cells) keepWatch(ctx context.Context, work bool, logger *slog.Logger) {
	logger = telemetry.Repeating(logger)
	for interval := watchFirst; ; interval = watchEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		asking, cancel := context.WithTimeout(ctx, readyTimeout)
		found := c.health(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(found.Cells)) {
			if state := found.Cells[name]; state != ready {
				logger.WarnContext(ctx, "cell.not_ready", "cell", name, "reason", state)
			}
		}
		if found.Directory != "" && found.Directory != ready {
			logger.WarnContext(ctx, "directory.not_ready", "reason", found.Directory)
		}
		for name := range found.Warnings {
			if held := found.held[name]; held != "" {
				logger.WarnContext(ctx, "cell.on_hold", "cell", name, "reason", held)
			}
			if unworked := found.unworked[name]; unworked != "" && !work {
				logger.WarnContext(ctx, "cell.not_worked", "cell", name, "reason", unworked)
			}
		}
	}
}
