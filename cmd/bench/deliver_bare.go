package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/signature"
)

// lonely posts without lanes.
type lonely struct {
	h      *house
	secret string
	bare   *http.Client
	safe   *safehttp.Client
}

func newLonely(h *house) (*lonely, error) {
	safe, err := safehttp.New(safehttp.Config{
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, CAFile: h.sink.caFile,
	})
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: h.sink.pool}, MaxIdleConnsPerHost: 256,
	}
	return &lonely{h: h, secret: signature.NewSecret(), bare: &http.Client{Transport: transport}, safe: safe}, err
}

func (l *lonely) close() {
	l.bare.CloseIdleConnections()
	l.safe.Close()
}

func (l *lonely) header(body []byte) http.Header {
	return http.Header{"Content-Type": {"application/json"}, signature.Header: {signature.Sign(time.Now(), body, l.secret)}}
}

// postAll signs and posts, and does nothing else.
func (l *lonely) postAll(ctx context.Context, total int) (pace, error) {
	l.h.sink.watch(nil)
	var begun atomic.Int64
	err := clients(64, func(int) (bool, error) {
		serial := begun.Add(1)
		if serial > int64(total) {
			return false, nil
		}
		body := bodyOf(int(serial))
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.h.sink.url, bytes.NewReader(body))
		if err != nil {
			return false, err
		}
		request.Header = l.header(body)
		response, err := l.bare.Do(request)
		if err != nil {
			return false, err
		}
		return true, response.Body.Close()
	})
	return l.h.sink.pace(), err
}

// jobEach works one River job for each delivery: read the body, post it, write down how it
// went.
func (l *lonely) jobEach(ctx context.Context, total int) (pace, error) {
	pool := l.h.cell.DB.Pool()
	_, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS bench_deliveries (id uuid PRIMARY KEY, body bytea NOT NULL, status text NOT NULL)`)
	if err != nil {
		return 0, err
	}
	failed := make(chan error, 1)
	client, err := bareRiver(pool, 200, 5*time.Millisecond, 50*time.Millisecond, func(row ids.Any) {
		if err := l.workOne(ctx, row); err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	})
	if err != nil {
		return 0, err
	}
	rows, bodies := make([]ids.Any, total), make([][]byte, total)
	jobs := make([]river.InsertManyParams, total)
	for i := range rows {
		rows[i], bodies[i] = newRow().ID, bodyOf(i)
		jobs[i].Args = newBareArgs(rows[i])
	}
	_, err = pool.Exec(ctx, `
		INSERT INTO bench_deliveries
		SELECT id, body, 'pending' FROM unnest($1::uuid[], $2::bytea[]) AS given (id, body)`, rows, bodies)
	if err != nil {
		return 0, err
	}
	if _, err := client.InsertManyFast(ctx, jobs); err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, `ANALYZE bench_deliveries`); err != nil {
		return 0, err
	}
	l.h.sink.watch(nil)
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { _ = client.Stop(context.WithoutCancel(ctx)) }()
	if err := l.h.sink.await(ctx, total); err != nil {
		return 0, err
	}
	select {
	case err := <-failed:
		return 0, err
	default:
		return l.h.sink.pace(), nil
	}
}

func (l *lonely) workOne(ctx context.Context, row ids.Any) error {
	pool := l.h.cell.DB.Pool()
	var body []byte
	if err := pool.QueryRow(ctx, `SELECT body FROM bench_deliveries WHERE id = $1`, row).Scan(&body); err != nil {
		return err
	}
	if _, err := l.safe.Post(ctx, strings.TrimSuffix(l.h.sink.url, "/"), l.header(body), body); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, `UPDATE bench_deliveries SET status = 'succeeded' WHERE id = $1`, row)
	return err
}
