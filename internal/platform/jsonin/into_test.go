package jsonin_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/platform/patch"
)

type draft struct {
	Name     string              `json:"name"`
	Color    patch.Field[string] `json:"color"`
	Cleared  patch.Field[string] `json:"cleared"`
	Absent   patch.Field[string] `json:"absent"`
	Caption  *string             `json:"caption"`
	Metadata json.RawMessage     `json:"metadata"`
	Free     map[string]any      `json:"free"`
	At       time.Time           `json:"at"`
	Buttons  []struct {
		Title string `json:"title"`
		Count int    `json:"count"`
	} `json:"buttons"`
}

func into(t *testing.T, body string) (draft, error) {
	t.Helper()
	document, err := jsonin.Parse([]byte(body))
	require.NoError(t, err)
	return jsonin.Into[draft](document)
}

func TestInto_CheckedDocument_Decoded(t *testing.T) {
	t.Parallel()
	got, err := into(t, `{"name":"é","color":"red","cleared":null,"metadata":{ "b":1e2, "a":"\u00e9" },
		"free":{"n":1.5},"at":"2026-01-31T12:00:00Z","buttons":[{"title":"x","count":3}],"unknown":1}`)
	require.NoError(t, err)
	require.Equal(t, "é", got.Name)
	require.Equal(t, patch.To("red"), got.Color)
	require.Equal(t, patch.Clear[string](), got.Cleared)
	require.Equal(t, patch.Field[string]{}, got.Absent)
	require.JSONEq(t, `{"b":1e2,"a":"é"}`, string(got.Metadata))
	require.Equal(t, map[string]any{"n": 1.5}, got.Free)
	require.Equal(t, 2026, got.At.Year())
	require.Equal(t, 3, got.Buttons[0].Count)
}

func TestInto_OtherCase_NotDecoded(t *testing.T) {
	t.Parallel()
	got, err := into(t, `{"name":"x","CAPTION":"not checked by any schema"}`)
	require.NoError(t, err)
	require.Nil(t, got.Caption)
}

func TestInto_WrongType_FieldNamed(t *testing.T) {
	t.Parallel()
	for body, param := range map[string]string{
		`{"name":1}`:         "name",
		`{"color":{}}`:       "color",
		`{"at":"yesterday"}`: "at",
		`{"buttons":[{"count":1},{"title":"x","count":"1"}]}`: "buttons[1].count",
		`{"buttons":{}}`: "buttons",
		`{"free":[]}`:    "free",
	} {
		_, err := into(t, body)
		refused := refusal(t, err)
		require.Equal(t, fault.InvalidFieldValue, refused.Code)
		require.Equal(t, param, refused.Param)
	}
}

func TestInto_NoBody_LikeEmptyObject(t *testing.T) {
	t.Parallel()
	var absent jsonin.Document
	got, err := jsonin.Into[draft](absent)
	require.NoError(t, err)
	require.Equal(t, draft{}, got)
	missing := absent.Check(compile(t, `{"required":["name","color"]}`))
	require.Equal(t, "name", refusal(t, missing).Param)
}
