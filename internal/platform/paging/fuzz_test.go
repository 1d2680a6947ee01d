package paging_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/paging"
)

// issued are cursors that Seal made for the list `listed` with the newer key. They are constants
// because each fuzzing process needs the same ones. Each must open for ever.
var (
	listed = paging.List{Name: "listLabels", Filters: "/?"}
	issued = map[string]string{
		"Ad46gV_k6-9z47j3pbjzi7ChUHJIpDlN4WB8Ks1TL3Oe9tQJMatnrruba1TGADE7W3wPXMdPcKxKe__JbDNaF16hJlNFwaM14eJXWp-N6A":  "first",
		"Ad46gV8OaKLWS7_7IekTjfHD1thjpy4eA-ZDThklqWZqKOFiJrJCPBP5P4c7x2XvP-N-FuUbxTX7b81RLCkSgrMLrS02bA3LiTS30drNwSg": "second",
		"Ad46gV_lQLs13DsD2TMu-k90G6CZysvbXI4mguCLA1VTVmyJ0Ex3eXn_uGGBZ-hyZdmOM7Drcm_pZiSDEL8LYch0BPr3NfLh-NxWkbTcUg":  "third",
	}
)

// FuzzCursor checks that a cursor opens only if Seal made it, and only for its own list.
func FuzzCursor(f *testing.F) {
	c := cursors(f, newer, older)
	for cursor := range issued {
		f.Add(cursor, listed.Name, listed.Filters)
		f.Add(cursor+"\n", listed.Name, listed.Filters)
		f.Add(cursor[:len(cursor)-1], listed.Name, listed.Filters)
		f.Add(cursor, "listContacts", listed.Filters)
	}
	f.Add("", "", "")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"at":"2026-03-14T09:26:53.589Z","id":"x"}`)), listed.Name, listed.Filters)
	f.Fuzz(func(t *testing.T, cursor, name, filters string) {
		opened, err := paging.Open[position](c, paging.List{Name: name, Filters: filters}, cursor)
		id, ours := issued[cursor]
		if ours && name == listed.Name && filters == listed.Filters {
			require.NoError(t, err)
			require.Equal(t, position{At: start, ID: id}, *opened)
			return
		}
		require.Nil(t, opened)
		require.Equal(t, fault.InvalidCursor, fault.Of(err))
	})
}
