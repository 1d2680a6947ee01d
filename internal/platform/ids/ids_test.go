package ids_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/ids"
)

type zebra struct{}

func (zebra) Prefix() string { return "zbr_" }

type ape struct{}

func (ape) Prefix() string { return "ape_" }

type (
	zebraID = ids.Public[zebra]
	teamID  = ids.Plain[zebra]
)

var start = time.Date(2026, 3, 14, 9, 26, 53, 589_000_000, time.UTC)

// moments generates times in whole milliseconds, as the product's clock shows them.
func moments() *rapid.Generator[time.Time] {
	return rapid.Custom(func(r *rapid.T) time.Time {
		return time.UnixMilli(rapid.Int64Range(0, 1<<48-1).Draw(r, "ms")).UTC()
	})
}

func TestPublic_PrintedAndParsed_Equal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		at := moments().Draw(r, "at")
		id := ids.New[zebra](at)
		require.Regexp(r, `^zbr_[0-9A-HJKMNP-TV-Z]{26}$`, id.String())
		require.Equal(r, at, id.CreatedAt())
		require.False(r, id.IsZero())

		parsed, err := ids.Parse[zebra](id.String())
		require.NoError(r, err)
		require.Equal(r, id, parsed)
		require.Equal(r, id, ids.MustParse[zebra](id.String()))

		encoded, err := json.Marshal(map[zebraID]zebraID{id: id})
		require.NoError(r, err)
		require.Equal(r, `{"`+id.String()+`":"`+id.String()+`"}`, string(encoded), "also as the key of an object")
		var decoded map[zebraID]zebraID
		require.NoError(r, json.Unmarshal(encoded, &decoded))
		require.Equal(r, id, decoded[id])
	})
}

func TestParse_OtherForms_Refused(t *testing.T) {
	t.Parallel()
	good := ids.New[zebra](start).String()
	digits := strings.TrimPrefix(good, "zbr_")
	wrong := map[string]string{
		"empty": "", "only the prefix": "zbr_", "without its prefix": digits, "another prefix": "ape_" + digits, "prefix in upper case": "ZBR_" + digits,
		"25 characters": good[:len(good)-1], "27 characters": good + "0", "lower case": "zbr_" + strings.ToLower(digits), "a blank before": " " + good,
		"a blank after": good + " ", "a line break after": good + "\n", "a NUL after": good + "\x00", "beyond 128 bits": "zbr_8" + digits[1:], "all Z": "zbr_" + strings.Repeat("Z", 26),
		"a UUID": "019cebab-8995-77b9-aad0-d83edc5a47e2", "full width": "zbr_" + strings.Repeat("\uff10", 26), "an emoji": "zbr_" + strings.Repeat("\U0001f993", 6) + "00",
		"invalid UTF-8": "zbr_" + strings.Repeat("\xff", 26), "10 KB": strings.Repeat("A", 10<<10),
	}
	for _, letter := range "ILOUilouabz_-+/= \t\n\x00" {
		for place := range len(digits) {
			wrong[string(letter)+" at "+string(rune('a'+place))] = "zbr_" + digits[:place] + string(letter) + digits[place+1:]
		}
	}
	for name, text := range wrong {
		_, err := ids.Parse[zebra](text)
		require.Error(t, err, "%s: %q", name, text)
		id := ids.MustParse[zebra](good)
		require.Error(t, id.UnmarshalText([]byte(text)), name)
		require.True(t, id.IsZero(), "an id that cannot be parsed is zero")
		require.Panics(t, func() { ids.MustParse[zebra](text) })
	}
	_, err := ids.Parse[ape](good)
	require.Error(t, err, "an id of another kind is refused")
	for _, edge := range []string{"zbr_00000000000000000000000000", "zbr_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"} {
		id, err := ids.Parse[zebra](edge)
		require.NoError(t, err)
		require.Equal(t, edge, id.String())
	}
}

func TestParse_AnyText_OnlyThePrintedFormAccepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(
			rapid.String(), rapid.StringMatching(`zbr_[0-9A-Za-z]{25,27}`), rapid.StringMatching(`zbr_[0-9A-HJKMNP-TV-Z]{26}`),
		).Draw(r, "text")
		if id, err := ids.Parse[zebra](text); err == nil {
			require.Equal(r, text, id.String())
		}
	})
}

// The ids of a millisecond keep their order also while ids of other milliseconds are made.
func TestNew_ManyInAMillisecond_InOrder(t *testing.T) {
	t.Parallel()
	const count = 10_000
	minted := make([]string, count)
	for i := range minted {
		at := start.Add(time.Duration(i/1_000) * time.Millisecond) // a thousand in each millisecond
		minted[i] = ids.New[zebra](at).String()
		ids.New[zebra](at.Add(-time.Millisecond))
		ids.New[zebra](at.Add(time.Second))
		ids.New[zebra](at.Add(time.Duration(i%1_000) * 4096 * time.Millisecond)) // at various distances
	}
	require.True(t, slices.IsSorted(minted))
	require.Len(t, slices.Compact(minted), count)
}

func TestNew_Concurrent_Unique(t *testing.T) {
	t.Parallel()
	const minters, each = 16, 2_000
	minted := make([][]zebraID, minters)
	var group sync.WaitGroup
	for i := range minters {
		group.Go(func() {
			for range each {
				minted[i] = append(minted[i], ids.New[zebra](start))
			}
		})
	}
	group.Wait()
	seen := map[zebraID]bool{}
	for _, own := range minted {
		require.True(t, slices.IsSortedFunc(own, func(a, b zebraID) int { return strings.Compare(a.String(), b.String()) }), "the ids of each goroutine are in order")
		for _, id := range own {
			seen[id] = true
		}
	}
	require.Len(t, seen, minters*each)
}

func TestFloorAndCeiling_AnyTime_AroundItsIDs(t *testing.T) {
	t.Parallel()
	require.Equal(t, "zbr_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", ids.Ceiling[zebra]().String())
	rapid.Check(t, func(r *rapid.T) {
		at := moments().Draw(r, "at")
		floor, id, next := ids.Floor[zebra](at), ids.New[zebra](at), ids.Floor[zebra](at.Add(time.Millisecond))
		require.Equal(r, at, floor.CreatedAt())
		require.LessOrEqual(r, floor.String(), id.String())
		require.LessOrEqual(r, id.String(), ids.Ceiling[zebra]().String())
		if at.UnixMilli() < 1<<48-1 {
			require.Less(r, id.String(), next.String())
		}
	})
	for _, early := range []time.Time{{}, time.Unix(0, 0), time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)} {
		require.True(t, ids.Floor[zebra](early).IsZero(), "the floor of a time before 1970 is zero")
	}
}

func TestPlain_PrintedAndParsed_Equal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		at := moments().Draw(r, "at")
		id := ids.NewPlain[zebra](at)
		require.Regexp(r, `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id.String(), "a UUIDv7")
		require.Equal(r, at, id.CreatedAt())
		require.False(r, id.IsZero())
		require.Len(r, id.Bytes(), 16)

		parsed, err := ids.ParsePlain[zebra](id.String())
		require.NoError(r, err)
		require.Equal(r, id, parsed)
		encoded, err := json.Marshal([]teamID{id})
		require.NoError(r, err)
		require.Equal(r, `["`+id.String()+`"]`, string(encoded))
		var decoded []teamID
		require.NoError(r, json.Unmarshal(encoded, &decoded))
		require.Equal(r, []teamID{id}, decoded)
	})
	require.True(t, teamID{}.IsZero())
	require.True(t, zebraID{}.IsZero())
}

func TestParsePlain_OtherForms_Refused(t *testing.T) {
	t.Parallel()
	good := "019cebab-8995-77b9-aad0-d83edc5a47e2"
	for name, text := range map[string]string{
		"empty": "", "upper case": strings.ToUpper(good), "one letter in upper case": strings.Replace(good, "c", "C", 1), "without dashes": strings.ReplaceAll(good, "-", ""),
		"in braces": "{" + good + "}", "a URN": "urn:uuid:" + good, "35 characters": good[:35], "37 characters": good + "0", "a blank before": " " + good[1:], "a blank after": good[:35] + " ",
		"other dashes": strings.ReplaceAll(good, "-", "_"), "dashes elsewhere": "019cebab8-995-77b9-aad0-d83edc5a47e2", "no hex": strings.Replace(good, "0", "g", 1),
		"a NUL": good[:35] + "\x00", "full width": strings.Replace(good, "0", "\uff10", 1), "dashes only": strings.Repeat("-", 36), "32 digits and four more": strings.ReplaceAll(good, "-", "") + "0000",
	} {
		_, err := ids.ParsePlain[zebra](text)
		require.Error(t, err, "%s: %q", name, text)
		id := ids.NewPlain[zebra](start)
		require.Error(t, id.UnmarshalText([]byte(text)), name)
		require.True(t, id.IsZero())
	}
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-fA-F-]{36}`), rapid.StringMatching(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)).Draw(r, "text")
		if id, err := ids.ParsePlain[zebra](text); err == nil {
			require.Equal(r, text, id.String())
		}
	})
}

func TestPlain_ManyInAMillisecond_InOrder(t *testing.T) {
	t.Parallel()
	const count = 10_000
	minted := make([]ids.Org, count)
	for i := range minted {
		minted[i] = ids.NewOrg(start.Add(time.Duration(i/1_000) * time.Millisecond))
	}
	require.True(t, slices.IsSortedFunc(minted, func(a, b ids.Org) int { return bytes.Compare(a.Bytes(), b.Bytes()) }))
	require.Len(t, slices.Compact(minted), count)
}
