package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/simulator"
)

// simulatedNetwork is the simulator behind HTTP. It counts the sends.
type simulatedNetwork struct {
	*simulator.Simulator
	counter

	url string
}

// openSimulated starts a simulator that knows the numbers. A silent one posts no statuses.
func openSimulated(ctx context.Context, b *bench, silent bool) *simulatedNetwork {
	n := &simulatedNetwork{Simulator: simulator.New(simulator.Config{
		AppID: callbackAppID, AppSecret: callbackSecret, Token: benchToken,
	})}
	handler := n.Handler()
	n.url = "http://" + serve(ctx, b, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if strings.HasSuffix(request.URL.Path, "/messages") {
			n.add()
		}
		handler.ServeHTTP(w, request)
	}))
	control := func(path string, fields map[string]any) {
		_, err := post(ctx, http.DefaultClient, n.url+"/sim/"+path, http.Header{}, must(json.Marshal(fields)), http.StatusOK)
		check(err)
	}
	settings := map[string]any{"window": "off", "pair_limit": false, "throughput_limit": false, "silent": silent}
	maps.Copy(settings, map[string]any{"sent_delay_ms": 50, "delivered_delay_ms": 100, "read_delay_ms": 200})
	control("settings", settings)
	for i := range sendNumbers {
		control("numbers", map[string]any{
			"id": numberOf(i), "throughput": "HIGH", "display_phone_number": fmt.Sprintf("+3512%08d", i),
		})
	}
	return n
}

// statuses has the statuses posted to a process until the side is over.
func (n *simulatedNetwork) statuses(ctx context.Context, b *bench, to *process) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	n.SetCallbackURL(to.url + "/provider/callbacks")
	go func() {
		defer close(ended)
		_ = n.Run(ctx)
	}()
	b.later(func() {
		cancel()
		<-ended
	})
}

// eventsOfAMessage are message.sent and a message.status for each of sent, delivered and read.
const eventsOfAMessage = 4

// sendWithAll returns how many messages became sent per second, and how many were complete: their
// statuses applied and their events delivered.
func sendWithAll(ctx context.Context, b *bench, total int) (sent, complete sample) {
	network := openSimulated(ctx, b, false)
	s := newSending(ctx, b, network.url, total)
	must(s.cell.Webhooks.Create(ctx, s.orgs[0], audit.Operator(), webhooks.Draft{
		URL: s.sink.url, Events: []events.Type{events.MessageSent, events.MessageStatus},
	}))
	delivered := s.sink.watch(nil)
	sent = s.sent(ctx, b, &network.counter, func() { network.statuses(ctx, b, s.process) })
	delivered.await(ctx, s.queued*eventsOfAMessage)
	complete.rate = float64(s.queued) / time.Since(time.Unix(0, network.first.Load())).Seconds()
	fmt.Fprintf(os.Stdout, "with all: %.0f messages/s complete\n", complete.rate)
	return sent, complete
}
