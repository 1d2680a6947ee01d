package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-chat/parley/internal/app"
)

// benchPipeline measures GET /v1/labels through the whole pipeline: against a bare handler
// that runs the same statements on the same pool and encodes the same JSON, or, with --cells 2,
// in two cells against one.
func benchPipeline(ctx context.Context, b *bench) figures {
	started := func(cells, organizations int) *process {
		p := newProcess(ctx, b, cells, organizations)
		p.run(ctx, b, app.Roles{Serve: true})
		return p
	}
	var first, second side
	switch b.cells {
	case 1:
		p := started(1, 1)
		first = getLabels(ours, p.url, p.keys)
		second = getLabels("bare", serve(ctx, b, bareLabels(p.cell.DB.Pool(), p.orgs[0])), p.keys)
	case 2: // the same load on two organizations: in one cell each, and both in the only cell
		two, one := started(2, 2), started(1, 2)
		first, second = getLabels("two", two.url, two.keys), getLabels("one", one.url, one.keys)
	default:
		check(errors.New("--cells: only 2 are compared with one"))
	}
	b.warm(ctx, first, second)
	shown := b.inTurn(ctx, "pipeline", first, second)
	return figures{
		"name": "pipeline", first.name: shown.median(first.name, rate), second.name: shown.median(second.name, rate),
		"ratio": shown.ratio(first.name, second.name, rate),
	}
}

// labelClients is how many connections ask at once; they share the keys evenly.
const labelClients = 32

// getLabels repeats the request over all connections. It is kept as thin as HTTP allows,
// because it shares the cores with what it measures.
func getLabels(name, address string, keys []string) side {
	return side{name, func(ctx context.Context, b *bench) sample {
		requests, conns, readers := make([][]byte, labelClients), make([]net.Conn, labelClients), make([]*bufio.Reader, labelClients)
		for i := range conns {
			requests[i] = fmt.Appendf(nil, "GET /v1/labels HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n", keys[i%len(keys)])
			conns[i] = must((&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(address, "http://")))
			b.later(func() { _ = conns[i].Close() })
			readers[i] = bufio.NewReaderSize(conns[i], 32<<10)
		}
		return during(labelClients, b.lasting(usualSpan), func(client int) error {
			if _, err := conns[client].Write(requests[client]); err != nil {
				return err
			}
			return errors.Join(readAnswer(readers[client], http.StatusOK), ctx.Err())
		})
	}}
}

// readAnswer reads an answer, which must have the status that is wanted, to its end.
func readAnswer(reader *bufio.Reader, want int) error {
	start, length := fmt.Appendf(nil, "HTTP/1.1 %d ", want), -1
	for first := true; ; first = false {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, start) {
			return fmt.Errorf("answered %q", bytes.TrimSpace(line))
		}
		if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			break
		}
	}
	if length < 0 {
		return errors.New("an answer without Content-Length")
	}
	_, err := io.CopyN(io.Discard, reader, int64(length))
	return err
}
