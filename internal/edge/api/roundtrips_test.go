package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// TestRoundTrips_PostWithKey counts what a request costs once its statements are prepared.
func TestRoundTrips_PostWithKey(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	post := func(n int) apitest.Answer {
		return client.Post(t, "/labels", fmt.Sprintf(`{"name":"label %d"}`, n), "Idempotency-Key", fmt.Sprint("k", n))
	}
	for range 2 {
		require.Equal(t, 201, post(0).Status)
	}
	var first, again apitest.Answer
	// The caller with the stored answer; begin; claim with the stored answer; team; label; answer with the commit.
	require.Equal(t, 6, s.RoundTrips(func() { first = post(1) }))
	require.Equal(t, 201, first.Status)
	// The caller with the stored answer.
	require.Equal(t, 1, s.RoundTrips(func() { again = post(1) }))
	require.Equal(t, string(first.Body), string(again.Body))
}

// TestRoundTrips_Send counts a text to a known contact with an Idempotency-Key. Its lane is armed already.
func TestRoundTrips_Send(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	post := func(key int) apitest.Answer {
		return n.send(t, sendTo("+351910000001"), "Idempotency-Key", fmt.Sprint("k", key))
	}
	for i := range 4 { // prepares the statements, creates the contact, arms the lane, gets an allowance of quota
		require.Equal(t, 202, post(i).Status)
	}
	// A request may get another connection, on which its statements are not prepared. That only adds round trips.
	least := func(do func(key int) apitest.Answer) int {
		fewest := 1_000
		for i := range 5 {
			fewest = min(fewest, n.s.RoundTrips(func() { require.Equal(t, 202, do(10+i).Status) }))
		}
		return fewest
	}
	// The caller with the stored answer; account; begin; claim with the stored answer; contact; conversation; message;
	// answer and lane row with the commit.
	require.Equal(t, 8, least(post))
	// The caller with the stored answer.
	require.Equal(t, 1, least(post), "the stored answers")
	require.Equal(t, []int{1, 1, 9, 9, 9, 9}, n.stored(t))
}

// TestRoundTrips_Validate counts a text to a known contact.
func TestRoundTrips_Validate(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	text := sendTo(*n.s.Conversation(t, n.Org, n.account).ContactNumber)
	fewest := 1_000
	for range 6 {
		fewest = min(fewest, n.s.RoundTrips(func() { require.True(t, n.validate(t, text).Valid) }))
	}
	// The caller; account; quota; contact; conversation.
	require.Equal(t, 5, fewest)
}
