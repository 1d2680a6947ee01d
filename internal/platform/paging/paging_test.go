package paging_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/sealed"
)

// position is the position of a list that is ordered by two columns.
type position struct {
	At time.Time `json:"at"`
	ID string    `json:"id"`
}

var (
	older = base64.StdEncoding.EncodeToString([]byte("an older master key of 32 bytes."))
	newer = base64.StdEncoding.EncodeToString([]byte("a newer master key with 32 bytes"))
	start = time.Date(2026, 3, 14, 9, 26, 53, 589_000_000, time.UTC)
)

func cursors(t testing.TB, masters ...string) *paging.Cursors {
	t.Helper()
	ring, err := sealed.NewKeyring(masters)
	require.NoError(t, err)
	made, err := paging.NewCursors(ring)
	require.NoError(t, err)
	return made
}

func seal(t testing.TB, c *paging.Cursors, list paging.List, at position) string {
	t.Helper()
	cursor, err := paging.Seal(c, list, at)
	require.NoError(t, err)
	return cursor
}

// requireInvalid checks that a cursor is refused with the fault of invalid cursors.
func requireInvalid(t testing.TB, c *paging.Cursors, list paging.List, cursor, why string) {
	t.Helper()
	opened, err := paging.Open[position](c, list, cursor)
	refused, ok := errors.AsType[*fault.Error](err)
	if opened != nil || !ok || refused.Code != fault.InvalidCursor || refused.Param != "cursor" {
		require.FailNow(t, why, "%q opened as %v, %v", cursor, opened, err)
	}
}

func labelsOf(org ids.Org) paging.List {
	return paging.List{Org: org, Name: "listLabels", Filters: "/?"}
}

const rounds = 10_000

func TestOpen_SealedPosition_ReturnsIt(t *testing.T) {
	t.Parallel()
	c := cursors(t, newer)
	seen := map[string]bool{}
	random := rand.New(rand.NewPCG(1, 1))
	for number := range rounds {
		list := labelsOf(ids.NewOrg(start))
		at := position{At: start.Add(time.Duration(random.Int64N(1e15))).Truncate(time.Millisecond), ID: fmt.Sprint("row ", number)}
		cursor := seal(t, c, list, at)
		opened, err := paging.Open[position](c, list, cursor)
		require.NoError(t, err)
		require.Equal(t, at, *opened)
		require.Regexp(t, `^[A-Za-z0-9_-]+$`, cursor, "a cursor needs no escaping in a URL")
		seen[cursor] = true
	}
	require.Len(t, seen, rounds, "each cursor is different")
}

func TestOpen_ChangedCursor_Refused(t *testing.T) {
	t.Parallel()
	c := cursors(t, newer)
	list := labelsOf(ids.NewOrg(start))
	random := rand.New(rand.NewPCG(2, 2))
	kinds := map[string]int{}
	for number := range rounds {
		cursor := seal(t, c, list, position{At: start, ID: fmt.Sprint("row ", number)})
		kind, mutated := mutate(random, cursor)
		require.NotEqual(t, cursor, mutated, kind)
		requireInvalid(t, c, list, mutated, kind)
		kinds[kind]++
	}
	t.Logf("%d mutations: %v", rounds, kinds)
	require.Len(t, kinds, len(mutations))
}

// mutations are functions that change a cursor. Each result differs from the cursor.
var mutations = map[string]func(random *rand.Rand, cursor string) string{
	"a bit of the text": func(random *rand.Rand, cursor string) string {
		changed := []byte(cursor)
		changed[random.IntN(len(changed))] ^= 1 << random.IntN(8)
		return string(changed)
	},
	"a bit of what it seals": func(random *rand.Rand, cursor string) string {
		inner, _ := base64.RawURLEncoding.DecodeString(cursor)
		inner[random.IntN(len(inner))] ^= 1 << random.IntN(8)
		return base64.RawURLEncoding.EncodeToString(inner)
	},
	"cut at the end":   func(random *rand.Rand, cursor string) string { return cursor[:random.IntN(len(cursor))] },
	"cut at the start": func(random *rand.Rand, cursor string) string { return cursor[1+random.IntN(len(cursor)-1):] },
	"the case of a letter": func(random *rand.Rand, cursor string) string {
		changed := []byte(cursor)
		at := random.IntN(len(changed))
		for changed[at]|0x20 < 'a' || changed[at]|0x20 > 'z' {
			at = (at + 1) % len(changed)
		}
		changed[at] ^= 0x20
		return string(changed)
	},
	"something appended": func(random *rand.Rand, cursor string) string {
		return cursor + []string{"A", "=", "==", "AAAA", "\n", " ", "\x00", ".", "%3D", cursor}[random.IntN(10)]
	},
	"something inserted": func(random *rand.Rand, cursor string) string {
		at := random.IntN(len(cursor))
		return cursor[:at] + []string{"\n", "\r", "\r\n", " ", "\t", "+", "/", "\u200b"}[random.IntN(8)] + cursor[at:]
	},
	"two characters exchanged": func(random *rand.Rand, cursor string) string {
		changed := []byte(cursor)
		at := random.IntN(len(changed) - 1)
		for changed[at] == changed[at+1] {
			at = (at + 1) % (len(changed) - 1)
		}
		changed[at], changed[at+1] = changed[at+1], changed[at]
		return string(changed)
	},
	"the last bits, which encode nothing": trailing,
	"the other alphabet": func(_ *rand.Rand, cursor string) string {
		inner, _ := base64.RawURLEncoding.DecodeString(cursor)
		return base64.StdEncoding.EncodeToString(append(inner, 0xff, 0xff, 0xff))
	},
	"the end of another": func(random *rand.Rand, cursor string) string {
		at := len(cursor) - 1 - random.IntN(20)
		return cursor[:at] + strings.Repeat("A", len(cursor)-at+4)
	},
	"noise": func(random *rand.Rand, _ string) string {
		noise := make([]byte, random.IntN(3000))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		return string(noise)
	},
}

// trailing changes the unused bits of the last character. It cuts the last character of a cursor
// without unused bits.
func trailing(random *rand.Rand, cursor string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	spare := map[int]int{2: 4, 3: 2}[len(cursor)%4]
	if spare == 0 {
		return cursor[:len(cursor)-1]
	}
	last := strings.IndexByte(alphabet, cursor[len(cursor)-1])
	return cursor[:len(cursor)-1] + string(alphabet[last^(1+random.IntN(1<<spare-1))])
}

func mutate(random *rand.Rand, cursor string) (kind, mutated string) {
	kinds := make([]string, 0, len(mutations))
	for kind := range mutations {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	kind = kinds[random.IntN(len(kinds))]
	return kind, mutations[kind](random, cursor)
}

func TestOpen_OtherList_Refused(t *testing.T) {
	t.Parallel()
	c := cursors(t, newer)
	rapid.Check(t, func(r *rapid.T) {
		lists := rapid.Custom(func(r *rapid.T) paging.List {
			org := ids.Org{}
			if rapid.Bool().Draw(r, "some org") {
				org = ids.NewOrg(start)
			}
			return paging.List{Org: org, Name: rapid.StringMatching(`[a-z\x00]{0,3}`).Draw(r, "name"), Filters: rapid.StringMatching(`[a-z=&\x00]{0,3}`).Draw(r, "filters")}
		})
		own, other := lists.Draw(r, "own"), lists.Draw(r, "other")
		cursor, err := paging.Seal(c, own, position{At: start, ID: "x"})
		require.NoError(r, err)
		_, err = paging.Open[position](c, other, cursor)
		if own == other {
			require.NoError(r, err)
			return
		}
		require.Equal(r, fault.InvalidCursor, fault.Of(err), "%+v opened for %+v", own, other)
	})
	org, stranger := ids.NewOrg(start), ids.NewOrg(start)
	cursor := seal(t, c, labelsOf(org), position{ID: "x"})
	requireInvalid(t, c, labelsOf(stranger), cursor, "another organization")
	requireInvalid(t, c, paging.List{Org: org, Name: "listContacts", Filters: "/?"}, cursor, "another list")
	requireInvalid(t, c, paging.List{Org: org, Name: "listLabels", Filters: "/?color=red"}, cursor, "another filter")
	requireInvalid(t, c, paging.List{Org: org, Name: "listLabels/?"}, cursor, "name and filters run together")
}

func TestOpen_KeysRotated_OldCursorsOpen(t *testing.T) {
	t.Parallel()
	before, during, after := cursors(t, older), cursors(t, newer, older), cursors(t, newer)
	list := labelsOf(ids.NewOrg(start))
	for number := range 1_000 {
		at := position{At: start, ID: fmt.Sprint("row ", number)}
		old, fresh := seal(t, before, list, at), seal(t, during, list, at)
		for name, opens := range map[string]struct {
			c      *paging.Cursors
			cursor string
		}{"the old one during": {during, old}, "the new one during": {during, fresh}, "the new one after": {after, fresh}} {
			opened, err := paging.Open[position](opens.c, list, opens.cursor)
			require.NoError(t, err, name)
			require.Equal(t, at, *opened)
		}
		requireInvalid(t, after, list, old, "its key is gone")
		requireInvalid(t, before, list, fresh, "its key is not known yet")
	}
}

func TestOpen_SealedForAnotherPurpose_Refused(t *testing.T) {
	t.Parallel()
	ring, err := sealed.NewKeyring([]string{newer})
	require.NoError(t, err)
	box, err := ring.Box("idempotent answer")
	require.NoError(t, err)
	for _, identity := range [][]byte{nil, {}, []byte("x")} {
		ciphertext, err := box.Seal([]byte(`{"id":"x"}`), identity)
		require.NoError(t, err)
		requireInvalid(t, cursors(t, newer), paging.List{}, base64.RawURLEncoding.EncodeToString(ciphertext), "another box")
	}
}

func TestOpen_PositionOfAnotherType_Refused(t *testing.T) {
	t.Parallel()
	c := cursors(t, newer)
	list := labelsOf(ids.NewOrg(start))
	for _, strange := range []any{"text", 1, true, []string{"x"}, map[string]any{"at": "not a time"}, map[string]any{"id": 1}} {
		cursor, err := paging.Seal(c, list, strange)
		require.NoError(t, err)
		requireInvalid(t, c, list, cursor, fmt.Sprint(strange))
	}
	_, err := paging.Seal(c, list, make(chan int))
	require.Error(t, err, "a position must be JSON")
}

func TestOpen_TooLong_RefusedUndecoded(t *testing.T) {
	t.Parallel()
	c := cursors(t, newer)
	list := labelsOf(ids.NewOrg(start))
	for _, size := range []int{0, 1, 2, 3, 4, 5, 28, 29, 2047, 2048, 2049, 1 << 20, 16 << 20} {
		requireInvalid(t, c, list, strings.Repeat("A", size), fmt.Sprint(size))
	}
}

func TestCut_OneRowMoreThanTheLimit_HasNext(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		rows := rapid.SliceOfN(rapid.Int(), 0, 12).Draw(r, "rows")
		limit := rapid.IntRange(1, 11).Draw(r, "limit")
		page := paging.Cut(slices.Clone(rows), limit, func(row int) string { return fmt.Sprint(row) })
		require.Equal(r, rows[:min(limit, len(rows))], page.Items)
		if len(rows) <= limit {
			require.Nil(r, page.Next, "there is nothing more")
			return
		}
		require.Equal(r, fmt.Sprint(rows[limit-1]), *page.Next, "the next page starts after the last row shown")
	})
}
