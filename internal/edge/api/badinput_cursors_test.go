package api_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

const otherMaster = "YSBuZXdlciBtYXN0ZXIga2V5IHdpdGggMzIgYnl0ZXM="

var tampered = refusal{400, "invalid_request_error", "invalid_cursor", "cursor"}

func badCursors(t *testing.T, b *badInputFixture) {
	for range 4 {
		b.server.Label(t, b.Org)
	}
	b.keep(t)
	fresh := func(client *apitest.Client) string {
		answer := client.Get(t, "/labels?limit=2")
		return answer.JSON(t)["next_cursor"].(string)
	}
	cursor := fresh(b.Client)
	b.logged++
	refuse := func(name, cursor string) {
		b.refuse(t, badInput{name: name, method: "GET", path: "/labels?limit=2&cursor=" + url.QueryEscape(cursor), want: tampered})
	}
	random := rand.New(rand.NewPCG(2026, 3))
	for number := range 400 {
		refuse(fmt.Sprintf("mutation %d", number), mutateCursor(random, cursor))
	}
	otherClient := b.server.Client(t)
	for range 3 {
		b.server.Label(t, otherClient.Org)
	}
	refuse("of another organization", fresh(otherClient))
	for name, strange := range map[string]string{
		"empty": "", "a blank": " ", "null": "null", "a number": "1", "a label": b.label, "an id in base64": base64.RawURLEncoding.EncodeToString([]byte(b.label)),
		"JSON": `{"id":"` + b.label + `"}`, "twice": cursor + cursor, "with padding": cursor + "==", "with a blank": cursor + " ", "in quotes": `"` + cursor + `"`,
		"a NUL after": cursor + "\x00", "a line break after": cursor + "\n", "an emoji": "\U0001f4c4", "invalid UTF-8": "\xff\xfe", "2,048 characters": strings.Repeat("A", 2048),
		"2,049 characters": strings.Repeat("A", 2049), "10 KB": strings.Repeat("A", 10_000), "10 KB after a good one": cursor + strings.Repeat("A", 10_000),
	} {
		refuse(name, strange)
	}
	own := paging.List{Org: b.Org, Name: "/v1/labels"}
	of := func(change func(*paging.List)) paging.List {
		other := own
		change(&other)
		return other
	}
	for name, made := range map[string]string{
		"of another list":          sealCursor(t, canary.Master, of(func(l *paging.List) { l.Name = "/v1/customers" }), b.label),
		"of a walk with filters":   sealCursor(t, canary.Master, of(func(l *paging.List) { l.Filters = "color=red" }), b.label),
		"of no organization":       sealCursor(t, canary.Master, of(func(l *paging.List) { l.Org = orgs.ID{} }), b.label),
		"under a key that we lack": sealCursor(t, otherMaster, own, b.label),
		"with no label in it":      sealCursor(t, canary.Master, own, "msg_"+b.label[4:]),
	} {
		refuse(name, made)
	}
	control := b.try(t, badInput{method: "GET", path: "/labels?cursor=" + sealCursor(t, canary.Master, own, b.label)})
	require.Equal(t, 200, control.Status, "the request is valid apart from the tested mistake")
	for _, query := range []string{"limit=2", "limit=1", "limit=100", ""} { // limit may change during a walk
		answer := b.try(t, badInput{method: "GET", path: "/labels?" + query + "&cursor=" + cursor})
		require.Equal(t, 200, answer.Status, "%s", answer.Body)
	}
}

func sealCursor(t *testing.T, master string, list paging.List, position string) string {
	t.Helper()
	ring, err := sealed.NewKeyring([]string{master})
	require.NoError(t, err)
	cursors, err := paging.NewCursors(ring)
	require.NoError(t, err)
	cursor, err := paging.Seal(cursors, list, position)
	require.NoError(t, err)
	return cursor
}

// mutateCursor makes a random change to a cursor.
func mutateCursor(random *rand.Rand, cursor string) string {
	changed := []byte(cursor)
	at := random.IntN(len(changed))
	switch random.IntN(6) {
	case 0: // a bit of the text
		changed[at] ^= 1 << random.IntN(8)
	case 1: // a bit of the sealed bytes
		inner, _ := base64.RawURLEncoding.DecodeString(cursor)
		inner[random.IntN(len(inner))] ^= 1 << random.IntN(8)
		return base64.RawURLEncoding.EncodeToString(inner)
	case 2:
		return cursor[:at]
	case 3:
		return cursor + string(rune('A'+random.IntN(26)))
	case 4:
		changed = slices.Insert(changed, at, '\n')
	default: // the case of a letter
		for changed[at]|0x20 < 'a' || changed[at]|0x20 > 'z' {
			at = (at + 1) % len(changed)
		}
		changed[at] ^= 0x20
	}
	return string(changed)
}

func TestCursors_MasterKeyRotated_StillWork(t *testing.T) {
	t.Parallel()
	old := apitest.New(t)
	client := old.Client(t)
	for range 3 {
		old.Label(t, client.Org)
	}
	cursor := client.Get(t, "/labels?limit=1").JSON(t)["next_cursor"].(string)
	path := "/labels?limit=1&cursor=" + cursor
	under := func(masters ...string) *apitest.Client {
		return apitest.With(t, apitest.Options{Beside: old, Masters: masters}).Client(t).WithKey(client.Key())
	}
	rotated := under(otherMaster, canary.Master)
	answer := rotated.Get(t, path)
	require.Equal(t, 200, answer.Status)
	require.Equal(t, client.Get(t, path).List(t), answer.List(t), "a walk that began before the rotation goes on")
	requireRefusal(t, tampered, under(otherMaster).Get(t, path))

	next := answer.JSON(t)["next_cursor"].(string)
	requireRefusal(t, tampered, client.Get(t, "/labels?limit=1&cursor="+next))
}

// TestList_WalkDuringInserts_EveryOldRowOnce reads a list page by page, in several page sizes, while
// other clients insert rows.
func TestList_WalkDuringInserts_EveryOldRowOnce(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	walks, inserted := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		client := s.Client(t)
		var there []string
		for range rapid.IntRange(0, 25).Draw(r, "rows") {
			s.Clock.Move(time.Duration(rapid.IntRange(0, 1).Draw(r, "pause")) * time.Millisecond)
			there = append(there, s.Label(t, client.Org).ID.String())
		}
		newestFirst := func(a, b string) int { return strings.Compare(b, a) }
		slices.SortFunc(there, newestFirst)
		size := rapid.SampledFrom([]int{1, 2, 3, 4, 7, 12, 24, 25, 26, 100}).Draw(r, "page size")

		stop, begun := make(chan struct{}), make(chan struct{})
		begin := sync.OnceFunc(func() { close(begun) })
		var inserting sync.WaitGroup
		end := sync.OnceFunc(func() { close(stop); inserting.Wait() })
		defer end()
		inserting.Go(func() {
			defer begin()
			for number := 0; ; number++ {
				select {
				case <-stop:
					return
				default:
				}
				s.Clock.Move(time.Duration(number%2) * time.Millisecond)
				if status := client.Post(t, "/labels", fmt.Sprintf(`{"name":"new %d"}`, number)).Status; status != 201 {
					t.Errorf("an insert was answered %d", status)
				}
				inserted++
				begin()
			}
		})
		<-begun
		seen := walk(t, client, fmt.Sprintf("/labels?limit=%d", size))
		end()
		walks++

		require.True(r, slices.IsSortedFunc(seen, newestFirst), "newest first: %s", seen)
		require.Len(r, slices.Compact(slices.Clone(seen)), len(seen), "each row once: %s", seen)
		old := slices.DeleteFunc(seen, func(id string) bool { return !slices.Contains(there, id) })
		require.Equal(r, append([]string{}, there...), old)
	})
	t.Logf("%d walks, %d rows inserted meanwhile", walks, inserted)
	require.Greater(t, inserted, walks)
}
