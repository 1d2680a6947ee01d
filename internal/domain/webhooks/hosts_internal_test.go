package webhooks

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
)

func someOrg() orgs.ID { return ids.NewOrg(time.Now()) }

func TestHosts_OneDestination_AtMost32AtOnce(t *testing.T) {
	t.Parallel()
	h, org := newHosts(1_000_000), someOrg()
	var leaves []func()
	for i := range hostConns {
		leave, ok := h.enter(t.Context(), org, fmt.Sprintf("https://Example.com:%d/%d", 8443+i, i))
		require.True(t, ok)
		leaves = append(leaves, leave)
	}
	refused, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, ok := h.enter(refused, org, "https://example.com/more")
	require.False(t, ok, "another path or port is the same host")
	for _, free := range []struct {
		org orgs.ID
		url string
	}{{someOrg(), "https://example.com/"}, {org, "https://other.example.com/"}} {
		leave, ok := h.enter(t.Context(), free.org, free.url)
		require.True(t, ok, free.url)
		leave()
	}
	leaves[0]()
	leave, ok := h.enter(t.Context(), org, "https://example.com/")
	require.True(t, ok)
	leave()
}

// The pace holds over all posts to a host, however many wait.
func TestHosts_OneDestination_KeepsItsPace(t *testing.T) {
	t.Parallel()
	const perSecond = 200
	h, org := newHosts(perSecond), someOrg()
	var passed atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for ctx.Err() == nil {
				if leave, ok := h.enter(ctx, org, "https://example.com/"); ok {
					passed.Add(1)
					leave()
				}
			}
		})
	}
	all.Wait()
	allowed := perSecond/10 + time.Since(began).Seconds()*perSecond + 1
	require.LessOrEqual(t, float64(passed.Load()), allowed)
	require.Positive(t, passed.Load())
}

func TestHosts_ManyDestinations_Forgotten(t *testing.T) {
	t.Parallel()
	h, org := newHosts(1_000_000), someOrg()
	for i := range 3 * mostHosts {
		leave, ok := h.enter(t.Context(), org, fmt.Sprintf("https://%d.example.com/", i))
		require.True(t, ok)
		leave()
	}
	require.LessOrEqual(t, len(h.known), 2*mostHosts)
}
