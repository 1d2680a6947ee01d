package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load repeats one request over several connections, which share the keys evenly, and
// counts the answers. It is kept as thin as HTTP allows, because it shares the cores with
// what it measures.
type load struct {
	address  string
	requests [][]byte // one for each connection
}

func newLoad(address string, keys []string) load {
	l := load{address: address}
	for i := range connections {
		l.requests = append(l.requests, fmt.Appendf(nil,
			"GET %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n", measured, keys[i%len(keys)]))
	}
	return l
}

// rate runs for a while and returns answers per second. Every answer must be 200.
func (l load) rate(ctx context.Context, span time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	var answers atomic.Int64
	var wait sync.WaitGroup
	failures := make(chan error, len(l.requests))
	started := time.Now()
	for _, request := range l.requests {
		wait.Go(func() {
			if err := l.drive(ctx, request, &answers); err != nil {
				failures <- err
			}
		})
	}
	wait.Wait()
	select {
	case err := <-failures:
		return 0, err
	default:
		return float64(answers.Load()) / time.Since(started).Seconds(), nil
	}
}

func (l load) drive(ctx context.Context, request []byte, answers *atomic.Int64) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReaderSize(conn, 32<<10)
	for ctx.Err() == nil {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if err := readAnswer(reader); err != nil {
			return err
		}
		answers.Add(1)
	}
	return nil
}

var errNoLength = errors.New("an answer without Content-Length")

func readAnswer(reader *bufio.Reader) error {
	length := -1
	for first := true; ; first = false {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
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
		return errNoLength
	}
	_, err := io.CopyN(io.Discard, reader, int64(length))
	return err
}
