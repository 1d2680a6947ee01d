package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

// TestWebhooks_AreSignedThroughRotation delivers while every subscription gets a second
// secret and loses its first. Some attempts fail at first, some deliveries are replayed.
func TestWebhooks_AreSignedThroughRotation(t *testing.T) {
	t.Parallel()
	both := []string{"customer.created", "customer.updated"}
	v := newVillage(t, 5, [][]string{both, both, both, both, {"contact.created"}})
	deliveries := sized(1_008, 50_000)
	events := deliveries / 4
	v.receiver.Answer(func(one receiver.Request) (answer receiver.Answer) {
		if one.Attempt() == 1 && oneIn(50, one.DeliveryID()) {
			answer.Status = http.StatusInternalServerError
		}
		if strings.HasSuffix(one.Path, "/0") { // its lane is never empty: whoever drains it must notice the rotation
			answer.Delay = sized(1500*time.Millisecond, 300*time.Millisecond)
		}
		return answer
	})
	began := time.Now()
	// The short form goes slowly: within two seconds of a rotation either set is right.
	published := v.publish(t.Context(), events, sized(time.Tick(24*time.Second/time.Duration(events)), nil))
	v.awaitChanges(t, events/4, 10*time.Minute)
	v.awaitPhase(t, began, deliveries/15)
	minting := v.rotate(t, (*envoy).mint)
	replayed := v.replay(t, deliveries/500)
	minted := time.Now()
	v.awaitChanges(t, events/2+events/8, 10*time.Minute)
	v.awaitPhase(t, minted.Add(truth.Tolerance), deliveries/15)
	revoking := v.rotate(t, (*envoy).revoke)
	require.NoError(t, published())
	took := time.Since(began)
	replayed = append(replayed, v.replay(t, deliveries/200)...)
	silence := v.awaitSilence(t, silentWithin)

	shown := v.requireShown(t, sized(100, 500))
	found := truth.Require(t, v.run())
	require.Equal(t, deliveries+len(replayed), found.Deliveries)
	require.Equal(t, found.Requests, found.Verified)
	requests := v.receiver.Requests()
	requireReplayed(t, requests, replayed)
	requireOrder(t, requests)
	n := v.phases(requests)
	require.Greater(t, n.first, deliveries/20)
	require.Greater(t, n.both, deliveries/20)
	require.Greater(t, n.second, deliveries/20)
	t.Logf("%d deliveries in %.0f s and %.1f s more: all verified in Node, %d requests, %d of them again, %d replays, %d shown alike",
		found.Deliveries, took.Seconds(), silence.Seconds(), found.Requests, repeats(requests), len(replayed), shown)
	t.Logf("signed by the first secret %d, by both %d, by the second %d, within %s of a change %d; minting took up to %s, revoking %s",
		n.first, n.both, n.second, truth.Tolerance, n.near, minting.Round(time.Millisecond), revoking.Round(time.Millisecond))
}

// awaitPhase waits until so many requests have arrived since a moment, and then so long that
// a rotation is not about then.
func (v *village) awaitPhase(t *testing.T, since time.Time, wanted int) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		arrived := 0
		for _, request := range v.receiver.Requests() {
			if request.At.After(since) {
				arrived++
			}
		}
		if arrived >= wanted {
			break
		}
		require.Less(t, time.Since(began), 10*time.Minute, "%d of %d requests", arrived, wanted)
	}
	time.Sleep(truth.Tolerance)
}

// rotate changes the secrets of every subscription, and returns how long the slowest took.
func (v *village) rotate(t *testing.T, change func(*envoy, context.Context, int) (truth.Span, error)) (slowest time.Duration) {
	t.Helper()
	var mu sync.Mutex
	require.NoError(t, each(len(v.tenants), func(i int) error {
		for j := range v.tenants[i].subscriptions {
			took, err := change(v.envoy(v.tenants[i]), t.Context(), j)
			if err != nil {
				return err
			}
			mu.Lock()
			slowest = max(slowest, took.End.Sub(took.Begin))
			mu.Unlock()
		}
		return nil
	}))
	return slowest
}

// mint gives a subscription its second secret.
func (c *envoy) mint(ctx context.Context, of int) (truth.Span, error) {
	one, span := c.of.subscriptions[of], truth.Span{Begin: time.Now()}
	path := "/webhook_subscriptions/" + one.ID + "/secrets"
	minted, err := c.ask(ctx, call{method: http.MethodPost, path: path, body: `{}`}, truth.Call{Key: "mint-" + one.ID})
	var body struct{ Data struct{ Secret string } }
	if err == nil {
		err = json.Unmarshal(minted.body, &body)
	}
	if err != nil || body.Data.Secret == "" {
		return span, fmt.Errorf("minting: %d: %w", minted.status, err)
	}
	span.End = time.Now()
	one.Secrets = append(one.Secrets, truth.Secret{Text: body.Data.Secret, Minted: span})
	return span, nil
}

// revoke takes the first one away.
func (c *envoy) revoke(ctx context.Context, of int) (truth.Span, error) {
	one, span := c.of.subscriptions[of], truth.Span{Begin: time.Now()}
	path := "/webhook_subscriptions/" + one.ID + "/secrets/" + c.of.secretIDs[of]
	revoked, err := c.ask(ctx, call{method: http.MethodDelete, path: path}, truth.Call{})
	if err != nil || revoked.status != http.StatusOK {
		return span, fmt.Errorf("revoking: %d %s: %w", revoked.status, revoked.body, err)
	}
	span.End = time.Now()
	one.Secrets[0].Revoked = span
	return span, nil
}

// phases counts the requests before, between and after the rotations of their
// subscription, and those about then, when either set is right.
type phases struct{ first, both, second, near int }

func (v *village) phases(requests []receiver.Request) (n phases) {
	around := func(at time.Time, change truth.Span) bool {
		return at.After(change.Begin.Add(-truth.Tolerance)) && at.Before(change.End.Add(truth.Tolerance))
	}
	for _, request := range requests {
		secrets := v.subscriptionOf(request).Secrets
		minted, revoked := secrets[1].Minted, secrets[0].Revoked
		switch at := request.At; {
		case around(at, minted) || around(at, revoked):
			n.near++
		case at.Before(minted.Begin):
			n.first++
		case at.After(revoked.End):
			n.second++
		case strings.Count(request.Header.Get("X-Svc-Signature"), ",v1=") == 2:
			n.both++
		}
	}
	return n
}

// replayedOnce is a delivery, the one made of it, and their event.
type replayedOnce struct{ original, made, event string }

// replay has some of what arrived delivered again.
func (v *village) replay(t *testing.T, wanted int) (all []replayedOnce) {
	t.Helper()
	requests := v.receiver.Requests()
	for _, at := range rand.Perm(len(requests))[:min(wanted, len(requests))] {
		one := requests[at]
		asked := truth.Call{Key: "replay-" + truth.Mark()}
		path := "/webhook_deliveries/" + one.DeliveryID() + "/replay"
		made, err := v.envoy(v.tenantOf(one)).ask(t.Context(), call{method: http.MethodPost, path: path}, asked)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
		data := made.data(t)
		require.Equal(t, one.DeliveryID(), data["replayed_from"])
		all = append(all, replayedOnce{one.DeliveryID(), data["id"].(string), one.EventUID()})
	}
	return all
}

func (v *village) tenantOf(one receiver.Request) *tenant {
	var at, subscription int
	_, _ = fmt.Sscanf(one.Path, "/%d/%d", &at, &subscription)
	return v.tenants[at]
}

func (v *village) subscriptionOf(one receiver.Request) *truth.Subscription {
	of := v.tenantOf(one).subscriptions
	return of[slices.IndexFunc(of, func(s *truth.Subscription) bool { return s.Path == one.Path })]
}

// requireReplayed: each replay arrived where the original had, as the same event.
func requireReplayed(t *testing.T, requests []receiver.Request, replayed []replayedOnce) {
	t.Helper()
	first := map[string]receiver.Request{}
	for _, one := range requests {
		first[one.DeliveryID()] = one
	}
	for _, one := range replayed {
		original, made := first[one.original], first[one.made]
		require.Equal(t, one.event, made.EventUID(), "the replay %s of %s", one.made, one.original)
		require.Equal(t, original.Path, made.Path)
		require.Equal(t, string(original.Body), string(made.Body))
	}
}

// requireShown: what the API shows of a delivery is what arrived, to the byte.
func (v *village) requireShown(t *testing.T, wanted int) int {
	t.Helper()
	requests := v.receiver.Requests()
	arrived := map[string][]receiver.Request{}
	for _, one := range requests {
		arrived[one.DeliveryID()] = append(arrived[one.DeliveryID()], one)
	}
	for _, at := range rand.Perm(len(requests))[:min(wanted, len(requests))] {
		id := requests[at].DeliveryID()
		got, err := v.envoy(v.tenantOf(requests[at])).ask(t.Context(), call{method: http.MethodGet, path: "/webhook_deliveries/" + id}, truth.Call{})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		var body struct {
			Data struct {
				ID, Status   string
				EventID      string `json:"event_id"`
				AttemptCount int    `json:"attempt_count"`
				Payload      json.RawMessage
				Attempts     []json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal(got.body, &body))
		require.Equal(t, "succeeded", body.Data.Status, "%s", got.body)
		require.Len(t, body.Data.Attempts, body.Data.AttemptCount, "%s", got.body)
		for _, one := range arrived[id] {
			require.Equal(t, body.Data.EventID, one.Header.Get("X-Svc-Event-Id"))
			require.True(t, bytes.Equal(body.Data.Payload, one.Body), "%s shows %s and sent %s", id, body.Data.Payload, one.Body)
		}
	}
	return min(wanted, len(requests))
}
