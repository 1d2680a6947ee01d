package main

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"time"

	"github.com/riverqueue/river"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/signature"
)

// barePosts signs and posts, and does nothing else.
func barePosts(ctx context.Context, b *bench, total int) sample {
	sink, secret := openSink(ctx, b), signature.NewSecret()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: sink.roots}, MaxIdleConnsPerHost: 256,
	}}
	b.later(client.CloseIdleConnections)
	watched := sink.watch(nil)
	check(times(64, total, func(i int) error {
		body := bodyOf(i)
		_, err := post(ctx, client, sink.url, signed(body, secret), body, http.StatusOK)
		return err
	}))
	return watched.pace()
}

func signed(body []byte, secret string) http.Header {
	return http.Header{"Content-Type": {"application/json"}, signature.Header: {signature.Sign(time.Now(), body, secret)}}
}

// oneJobEach works one River job for each delivery: read the body, sign it, post it with the
// product's own client, write the result. That is the least that a delivery costs without lanes.
func oneJobEach(ctx context.Context, b *bench, total int) sample {
	p, secret := newProcess(ctx, b, 1, 1), signature.NewSecret()
	pool := p.cell.DB.Pool()
	must(pool.Exec(ctx, `CREATE TABLE bench_deliveries (id uuid PRIMARY KEY, body bytea NOT NULL, status text NOT NULL)`))
	client := must(safehttp.New(safehttp.Config{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, CAFile: p.sink.caFile}))
	b.later(client.Close)
	failed := make(chan error, total)
	queue := bareRiver(pool, 200, 5*time.Millisecond, 50*time.Millisecond, func(row ids.Any) {
		failed <- func() error {
			var body []byte
			if err := pool.QueryRow(ctx, `SELECT body FROM bench_deliveries WHERE id = $1`, row).Scan(&body); err != nil {
				return err
			}
			if _, err := client.Post(ctx, p.sink.url, signed(body, secret), body); err != nil {
				return err
			}
			_, err := pool.Exec(ctx, `UPDATE bench_deliveries SET status = 'succeeded' WHERE id = $1`, row)
			return err
		}()
	})
	rows, bodies, many := make([]ids.Any, total), make([][]byte, total), make([]river.InsertManyParams, total)
	for i := range rows {
		rows[i], bodies[i] = newRow().ID, bodyOf(i)
		many[i].Args = newBareArgs(rows[i])
	}
	must(pool.Exec(ctx, `INSERT INTO bench_deliveries SELECT id, body, 'pending' FROM unnest($1::uuid[], $2::bytea[]) AS given (id, body)`,
		rows, bodies))
	must(queue.InsertManyFast(ctx, many))
	must(pool.Exec(ctx, `ANALYZE bench_deliveries`))
	watched := p.sink.watch(nil)
	check(queue.Start(ctx))
	b.later(func() { _ = queue.Stop(context.WithoutCancel(ctx)) })
	for range total {
		select {
		case err := <-failed:
			check(err)
		case <-ctx.Done():
			check(ctx.Err())
		}
	}
	return watched.pace()
}
