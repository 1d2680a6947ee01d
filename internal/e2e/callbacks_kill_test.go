package e2e_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

const (
	callbackClients = 16
	callbackNumbers = 10
)

// number creates a connected number of the organization, in the directory and in the cell.
func (f *fixture) number(t *testing.T, org orgs.ID, n int) string {
	t.Helper()
	number := fmt.Sprintf("1%014d", n)
	f.exec(t, `
INSERT INTO accounts (org_id, id, team_id, business_account_id, phone_number_id, status, provider_status, subscribed, token,
    generation, checked_at, due_at, updated_at)
SELECT $1, gen_random_uuid(), id, '200000000000001', $2, 'connected', 'CONNECTED', true, '', 1, now(), now() + interval '1 day', now()
FROM teams
WHERE org_id = $1`,
		org, number)
	f.exec(t, `
INSERT INTO directory.routes (kind, key, org_id, business_account_id, generation, state, changed_at)
VALUES ('phone_number', $1, $2, '200000000000001', 1, 'confirmed', now())`, []byte(number), org)
	return number
}

// network sends callbacks as the provider does: it repeats each until it is answered with 200.
type network struct {
	client *http.Client
	urls   []string
	acked  atomic.Int64
}

func (n *network) push(ctx context.Context, number, message string) error {
	body := fmt.Appendf(nil, `{"object":"whatsapp_business_account","entry":[{"id":"200000000000001","changes":[{"field":"messages","value":{`+
		`"messaging_product":"whatsapp","metadata":{"display_phone_number":"351200000000","phone_number_id":"%s"},`+
		`"statuses":[{"id":"%s","status":"delivered","timestamp":"1773480413","recipient_id":"351910000000"}]}}]}]}`, number, message)
	mac := hmac.New(sha256.New, []byte(canary.AppSecret))
	mac.Write(body)
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.urls[rand.IntN(len(n.urls))], bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		response, err := n.client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				n.acked.Add(1)
				return nil
			}
			if response.StatusCode != http.StatusServiceUnavailable {
				return fmt.Errorf("answered %s", response.Status)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestCallbacks_ProcessesKilled_NoneIsLost kills processes, one after another, while the provider
// sends callbacks.
func TestCallbacks_ProcessesKilled_NoneIsLost(t *testing.T) {
	t.Parallel()
	count, kills := sized(1_500, 20_000), sized(3, 20)
	f := newFixture(t)
	org := f.org(t, unlimited)
	numbers := make([]string, callbackNumbers)
	for i := range numbers {
		numbers[i] = f.number(t, org, i)
	}
	provider := &network{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callbackClients}, Timeout: 5 * time.Second}}
	servers := f.serveCallbacks(t, provider)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var next atomic.Int64
	var group errgroup.Group
	for range callbackClients {
		group.Go(func() error {
			for n := next.Add(1); n <= int64(count); n = next.Add(1) {
				if err := provider.push(ctx, numbers[n%callbackNumbers], fmt.Sprintf("wamid.%d", n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for kill := range kills {
		wanted := int64(count * (kill + 1) / (kills + 1))
		proc.Eventually(t, 5*time.Minute, fmt.Sprint(wanted, " callbacks"), func() bool { return provider.acked.Load() >= wanted || ctx.Err() != nil })
		one := servers[kill%len(servers)]
		one.Kill()
		one.restart(t)
	}
	require.NoError(t, group.Wait())
	began := time.Now()
	proc.Eventually(t, deliveredWithin, "everything is applied", func() bool {
		return f.count(t, `SELECT count(*) FROM lane_rows`) == 0
	})
	kept := f.count(t, `SELECT count(DISTINCT substring(convert_from(body, 'UTF8') FROM '"wamid\.[0-9]+"')) FROM callbacks`)
	// No message has these ids: their statuses are parked.
	applied := f.count(t, `SELECT count(DISTINCT provider_id) FROM parked_statuses`)
	rows := f.count(t, `SELECT count(*) FROM callbacks`)
	t.Logf("%d callbacks, %d kills: %d kept (%d pushed again), %d reached the consumers, settled after %s",
		count, kills, kept, rows-kept, applied, time.Since(began).Round(100*time.Millisecond))
	require.Equal(t, count, kept, "every callback that was answered with 200 is stored")
	require.Equal(t, count, applied, "and reached the consumers")
}

// serveCallbacks starts two processes that receive and apply callbacks.
func (f *fixture) serveCallbacks(t *testing.T, provider *network) []*server {
	t.Helper()
	servers := make([]*server, 2)
	for i := range servers {
		s := &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t), flags: []string{"--work"}}
		s.settings = f.settings().With(proc.Settings{
			"PARLEY_LISTEN": s.api, "PARLEY_OPERATOR_LISTEN": s.operator, "PARLEY_CELLS": "main", "PARLEY_PROVIDER_APP_ID": "1",
			"PARLEY_PROVIDER_APP_SECRET": canary.AppSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken, "PARLEY_PROVIDER_BASE_URL": "http://127.0.0.1:1",
		})
		servers[i] = s
		provider.urls = append(provider.urls, "http://"+s.api+"/provider/callbacks")
		s.start(t)
	}
	for _, s := range servers {
		s.waitReady(t)
	}
	return servers
}
