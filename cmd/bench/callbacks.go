package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/provider"
)

// callbackFigures are those of signed callbacks of one item each, to the 200.
type callbackFigures struct {
	PerSecond float64 `json:"per_second"`
	P50Ms     float64 `json:"p50_ms"`
	P99Ms     float64 `json:"p99_ms"`
	// The same while the process also applies what it stored.
	WorkingPerSecond float64 `json:"working_per_second"`
	WorkingP99Ms     float64 `json:"working_p99_ms"`
}

const (
	callbackClients = 32
	callbackNumbers = 20
	callbackSpan    = 5 * time.Second
	callbackRounds  = 3
	callbackSecret  = "bench-app-secret"
)

// benchCallbacks measures the ingress of the provider's callbacks.
func benchCallbacks(ctx context.Context, args []string) (any, error) {
	flags, given := flag.NewFlagSet("callbacks", flag.ContinueOnError), deliverOptions{}
	flags.StringVar(&given.server, "postgres", localServer, "a server on which scratch databases may be made")
	flags.StringVar(&given.profile, "profile", "", "write a CPU profile of the whole run to this file")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	stop, err := startProfile(given.profile)
	if err != nil {
		return nil, err
	}
	defer stop()
	var rates, halves, tails, workingRates, workingTails []float64
	for round := range callbackRounds {
		rate, delays, err := pushed(ctx, given, app.Roles{Serve: true})
		if err != nil {
			return nil, err
		}
		workingRate, workingDelays, err := pushed(ctx, given, app.Roles{Serve: true, Work: true})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stdout, "callbacks, round %d: %.0f/s, %s; while they are applied %.0f/s, %s\n",
			round+1, rate, delays, workingRate, workingDelays)
		rates, halves, tails = append(rates, rate), append(halves, delays.p50), append(tails, delays.p99)
		workingRates, workingTails = append(workingRates, workingRate), append(workingTails, workingDelays.p99)
	}
	return callbackFigures{
		PerSecond: rounded(median(rates)), P50Ms: rounded(median(halves)), P99Ms: rounded(median(tails)),
		WorkingPerSecond: rounded(median(workingRates)), WorkingP99Ms: rounded(median(workingTails)),
	}, nil
}

// pushed has clients push as fast as they are answered.
func pushed(ctx context.Context, given deliverOptions, roles app.Roles) (rate float64, delays spread, err error) {
	h, err := openHouse(ctx, given)
	if err != nil {
		return 0, delays, err
	}
	defer h.stop()
	for n := range callbackNumbers {
		_, err := h.cell.Accounts.Attach(ctx, h.org, audit.Operator(), accounts.Draft{
			BusinessAccountID: "200000000000001", PhoneNumberID: numberOf(n), Token: provider.NewToken("bench"),
		}, provider.NumberState{Status: provider.NumberConnected}, time.Now())
		if err != nil {
			return 0, delays, err
		}
	}
	stop, err := h.run(ctx, roles)
	if err != nil {
		return 0, delays, err
	}
	defer stop()
	url := strings.TrimSuffix(h.url, "/v1") + "/provider/callbacks"
	if _, _, err = pushAll(ctx, url, time.Second); err != nil {
		return 0, delays, err
	}
	return pushAll(ctx, url, callbackSpan)
}

func numberOf(n int) string { return fmt.Sprintf("1%014d", n) }

func pushAll(ctx context.Context, url string, span time.Duration) (rate float64, delays spread, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callbackClients}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var all []time.Duration
	var serial atomic.Int64
	began, group := time.Now(), errgroup.Group{}
	for range callbackClients {
		group.Go(func() error {
			var mine []time.Duration
			for time.Since(began) < span {
				at := time.Now()
				if err := pushOne(ctx, client, url, serial.Add(1)); err != nil {
					return err
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, delays, err
	}
	delays, err = spreadOf(sorted(all))
	return float64(len(all)) / time.Since(began).Seconds(), delays, err
}

func pushOne(ctx context.Context, client *http.Client, url string, n int64) error {
	body := fmt.Appendf(nil, `{"object":"chat_business_account","entry":[{"id":"200000000000001","changes":[{"field":"messages","value":{`+
		`"messaging_product":"chat","metadata":{"display_phone_number":"351200000000","phone_number_id":"%s"},`+
		`"statuses":[{"id":"wamid.%030d","status":"delivered","timestamp":"1773480413","recipient_id":"351910000000",`+
		`"biz_opaque_callback_data":"msg_01KKNWJ8CD0000000000000000:1"}]}}]}]}`, numberOf(int(n%callbackNumbers)), n)
	mac := hmac.New(sha256.New, []byte(callbackSecret))
	mac.Write(body)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", response.Status)
	}
	return response.Body.Close()
}
