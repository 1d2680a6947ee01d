package app

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
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
		body := status{Status: "ready", Version: Version, Cells: a.cells.health(ctx)}
		code := http.StatusOK
		if !slices.Contains(slices.Collect(maps.Values(body.Cells)), "ready") {
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
}

func writeJSON(w http.ResponseWriter, code int, body status) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	encoded, _ := json.Marshal(body)      //nolint:errchkjson // strings always encode
	_, _ = w.Write(append(encoded, '\n')) // fails only when the caller has closed the connection
}

// health checks all cells at the same time. A process is ready while one of its cells is ready;
// requests to the other cells answer 503.
func (c *Cells) health(ctx context.Context) map[string]string {
	var mu sync.Mutex
	var asked sync.WaitGroup
	cells := map[string]string{}
	for name, cell := range c.all {
		asked.Go(func() {
			state := "ready"
			if reason := cell.unready(ctx); reason != "" {
				state = reason
			}
			mu.Lock()
			defer mu.Unlock()
			cells[name] = state
		})
	}
	asked.Wait()
	return cells
}
