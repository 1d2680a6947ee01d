package apitest

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// tally counts the statements of one request for each database.
type tally struct {
	mu         sync.Mutex
	statements map[string]int
}

type tallyKey struct{}

// tallied fails the test when a request uses more than one cell, reads the directory more than
// once, succeeds without a cell, or has a secret in its response. It adds the round trips to trips.
func tallied(t testing.TB, handler http.Handler, trips *atomic.Int64) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count := &tally{statements: map[string]int{}}
		answer := &recorder{ResponseWriter: w, mints: minting.MatchString(r.Method + " " + r.URL.Path)}
		ctx := pgtest.CountTrips(context.WithValue(r.Context(), tallyKey{}, count), trips)
		handler.ServeHTTP(answer, r.WithContext(ctx))
		answer.check(t, r)
		count.mu.Lock()
		defer count.mu.Unlock()
		// Disconnecting a number announces and releases its route; creating a setup link claims and confirms its token. Each
		// takes two transactions.
		routes := r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/whatsapp_accounts/") ||
			r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/setup_links")
		if count.statements["directory"] > 1 && !routes {
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

// recorder records a response.
type recorder struct {
	http.ResponseWriter

	// mints is true when the response shows a new signing secret by contract.
	mints  bool
	status int
	body   []byte
}

// WriteHeader records the status.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Write records the body, and notes a new signing secret before the request is logged.
func (r *recorder) Write(text []byte) (int, error) {
	r.body = append(r.body, text...)
	if found := minted.FindSubmatch(text); r.mints && found != nil {
		canary.Note(string(found[1]))
	}
	return r.ResponseWriter.Write(text)
}

var (
	minted  = regexp.MustCompile(`"(?:initial_)?secret":"([^"]+)"`)
	minting = regexp.MustCompile(`^POST /v1/webhook_subscriptions(/[^/]+/secrets)?$`)
)

func (r *recorder) check(t testing.TB, request *http.Request) {
	var shown []canary.Kind
	if r.mints {
		shown = []canary.Kind{canary.SigningSecret}
	}
	canary.Check(t, "the answer to "+request.Method+" "+request.URL.Path, fmt.Appendf(r.body, "\n%v", r.Header()), shown...)
}

// Unwrap returns the server's own writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// touch is a tracer that counts the statements of a database. Its value is the database's name.
type touch string

// TraceQueryStart counts a statement.
func (name touch) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	name.count(ctx, 1)
	return ctx
}

// TraceBatchStart counts the statements of a batch.
func (name touch) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	name.count(ctx, data.Batch.Len())
	return ctx
}

func (name touch) count(ctx context.Context, statements int) {
	if count, ok := ctx.Value(tallyKey{}).(*tally); ok {
		count.mu.Lock()
		count.statements[string(name)] += statements
		count.mu.Unlock()
	}
}

// TraceQueryEnd has nothing to add.
func (touch) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchQuery has nothing to add.
func (touch) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd has nothing to add.
func (touch) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
