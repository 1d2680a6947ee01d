package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// fixedProvider is a messaging network that takes every message and does nothing with it.
type fixedProvider struct {
	counter

	url string
	// answersAfter is how long each message takes, hangs how long those of the number hung do.
	answersAfter, hangs time.Duration
	hung                string
	// seen, unless nil, is told the id of each message and when it had arrived.
	seen   func(id string, at time.Time)
	serial atomic.Int64
	over   chan struct{}
}

func (f *fixedProvider) open(ctx context.Context, b *bench) *fixedProvider {
	f.over = make(chan struct{})
	f.url = "http://" + serve(ctx, b, f)
	return f
}

// ServeHTTP answers sends. It has no answer for anything else that the product asks.
func (f *fixedProvider) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	number, isSend := strings.CutSuffix(request.URL.Path, "/messages")
	body, err := io.ReadAll(request.Body)
	if !isSend || err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	takes, at := f.answersAfter, time.Now()
	if f.hung != "" && strings.HasSuffix(number, f.hung) {
		takes = f.hangs
	} else {
		f.add()
		if f.seen != nil {
			f.seen(messageIn(body), at)
		}
	}
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-f.over:
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"messages":[{"id":"wamid.%030d"}]}`, f.serial.Add(1))
}

// messageIn is the id of our message in its reference, which has the number of the attempt after it.
func messageIn(body []byte) string {
	_, after, _ := bytes.Cut(body, []byte(`"biz_opaque_callback_data":"`))
	id, _, _ := bytes.Cut(after, []byte(":"))
	return string(id)
}
