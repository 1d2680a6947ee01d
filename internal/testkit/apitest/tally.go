package apitest

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// tally counts the statements of one request by the database they ran on.
type tally struct {
	mu         sync.Mutex
	statements map[string]int
}

type tallyKey struct{}

// tallied fails the test whose request touches more than one cell, reads the directory
// more than once, or succeeds without a cell.
func tallied(t testing.TB, handler http.Handler) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count := &tally{statements: map[string]int{}}
		answer := &recorder{ResponseWriter: w}
		handler.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), tallyKey{}, count)))
		count.mu.Lock()
		defer count.mu.Unlock()
		if count.statements["directory"] > 1 {
			t.Errorf("%s %s read the directory %d times", r.Method, r.URL.Path, count.statements["directory"])
		}
		delete(count.statements, "directory")
		if len(count.statements) > 1 {
			t.Errorf("%s %s touched several cells: %v", r.Method, r.URL.Path, count.statements)
		}
		if known := answer.Header().Get("RateLimit-Limit") != ""; known && answer.status < 300 && len(count.statements) != 1 {
			t.Errorf("%s %s answered %d and touched no cell", r.Method, r.URL.Path, answer.status)
		}
	})
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter

	status int
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the server reach its own writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// touch is a tracer that counts statements on the database of that name.
type touch string

// TraceQueryStart counts a statement.
func (name touch) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if count, ok := ctx.Value(tallyKey{}).(*tally); ok {
		count.mu.Lock()
		count.statements[string(name)]++
		count.mu.Unlock()
	}
	return ctx
}

// TraceQueryEnd has nothing to add.
func (touch) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
