package simulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRing_KeepsTheNewest(t *testing.T) {
	t.Parallel()
	r := newRing[int](3)
	require.Empty(t, slices.Collect(r.newest))
	for i := range 10 {
		gone, evicted := r.add(i)
		require.Equal(t, i >= 3, evicted)
		require.Equal(t, max(0, i-3), gone)
		want := []int{i, i - 1, i - 2}[:min(i+1, 3)]
		require.Equal(t, want, slices.Collect(r.newest))
		require.Equal(t, len(want), r.len())
	}
}

func TestBounds_WindowsAndPairsStayWithinThem(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	open, limits := newWindows(), newPairs()
	for i := range maxWindows + 1_000 {
		now := start.Add(time.Duration(i) * time.Millisecond)
		which := pair{"1", fmt.Sprint(i)}
		open.open(which, now)
		limits.take(which, now)
		if !open.isOpen(which, now) {
			t.Fatal("whoever just wrote has a window")
		}
	}
	require.LessOrEqual(t, len(open.opened), maxWindows)
	require.LessOrEqual(t, len(limits.buckets), maxPairs)
}

func TestBounds_PeopleFilesAndTokens(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	w := newWorld(Config{}.withDefaults(), now)
	for i := range maxPeople + 10 {
		w.people.keep(&person{Phone: fmt.Sprint(20_000_000_000 + i)})
	}
	require.LessOrEqual(t, len(w.people.known), maxPeople)
	for i := range maxTokens + 10 {
		w.issue(&token{Value: fmt.Sprint(i), Accounts: []string{"1"}, Issued: now.Add(time.Duration(i))})
	}
	require.LessOrEqual(t, len(w.tokens), maxTokens)
	require.NotNil(t, w.tokens[DefaultToken], "the fixture's stays")
	data := make([]byte, 1<<20)
	for range maxMediaBytes>>20 + 10 {
		w.keepMedia(DefaultPhoneNumberID, "image/png", "", data, now.Add(time.Hour), now)
	}
	require.LessOrEqual(t, w.media.bytes, maxMediaBytes)
	require.Len(t, w.media.files, maxMediaBytes>>20)
	require.Len(t, w.media.order, maxMediaBytes>>20)
}

func TestBounds_ThreadsFollowTheRing(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	for i := range 2*maxShown + 1 {
		s.show(&bubble{ID: fmt.Sprint(i), PhoneNumberID: "1", Phone: fmt.Sprint(i % 7), Type: "text"})
	}
	total := 0
	for which, said := range s.world.threads {
		total += len(said)
		require.Equal(t, said[len(said)-1], s.world.bubbles[said[len(said)-1].ID], which)
	}
	require.Equal(t, maxShown, total)
	require.Len(t, s.world.bubbles, maxShown)
}

// FuzzSend wants an answer to every body, never a panic.
func FuzzSend(f *testing.F) {
	for _, body := range []string{
		`{"to":"1","type":"text","text":{"body":"x"}}`, `{"to":1,"type":2}`, `{"to":"1","type":"contacts","contacts":[1]}`,
		`{"to":"1","type":"interactive","interactive":{"type":"list","action":{"sections":[{"rows":[{}]}]}}}`,
		`{"to":"1","type":"template","template":{"name":"order_update","language":{"code":"en_US"},"components":[{"type":"button","index":9}]}}`,
		`{"to":"1","type":"template","template":{"name":"spring_sale","language":{"code":"en_US"},"components":[{"type":"carousel","cards":[{}]}]}}`,
	} {
		f.Add(body)
	}
	s := New(Config{})
	f.Fuzz(func(t *testing.T, body string) {
		form := object{}
		if json.Unmarshal([]byte(body), &form) != nil {
			t.Skip()
		}
		m, err := readMessage(form)
		if err != nil {
			return
		}
		for _, known := range s.world.templates {
			of, _ := m.content.(object)
			m.template = known
			components, _ := of["components"].([]any)
			_ = known.shape.Fit(components) // whatever it says
			s.rendered(&m)
		}
		_ = (&template{Name: "x", Language: "en", Category: "MARKETING", Format: "NAMED", Components: []any{m.content, form}}).check()
	})
}
