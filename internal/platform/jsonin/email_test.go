package jsonin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/jsonin"
)

func TestEmail_LocalPartAndDomain(t *testing.T) {
	t.Parallel()
	validate := jsonin.Email().Validate
	for _, address := range []string{
		"ana@example.com", "a@b", "ana+tag@sub.example.co.uk", "josé@exämple.de",
		strings.Repeat("a", 200) + "@" + strings.Repeat("b", 50) + ".com",
	} {
		require.NoError(t, validate(address), address)
	}
	for _, address := range []string{
		"", "ana", "@example.com", "ana@", "ana@example..com", "ana@.com", "ana@example.com.", "a na@example.com", "ana@exa mple.com",
		"ana@@example.com", "ana@-example.com", "ana@example.com\n", "ana\u200b@example.com",
	} {
		require.Error(t, validate(address), "%q", address)
	}
	require.NoError(t, validate(7), "other types are for the type of the schema to refuse")
}

func TestSameMetadata_OrderAndSpellingOfNumbers_DoNotMatter(t *testing.T) {
	t.Parallel()
	same := func(one, other string) bool { return jsonin.SameMetadata([]byte(one), []byte(other)) }
	require.True(t, same(`{"a":1,"b":[{"c":true,"d":null}]}`, `{"b":[{"d":null,"c":true}],"a":1.0}`))
	require.True(t, same(`{"a":100}`, `{"a":1e2}`))
	require.True(t, same(`{"a":-0}`, `{"a":0}`))
	require.False(t, same(`{"a":9007199254740993}`, `{"a":9007199254740992}`), "not compared as doubles")
	require.False(t, same(`{"a":1}`, `{"a":"1"}`))
	require.False(t, same(`{"a":[1,2]}`, `{"a":[2,1]}`))
	require.False(t, same(`{"a":null}`, `{}`))
	require.True(t, jsonin.SameMetadata(nil, nil))
	require.False(t, jsonin.SameMetadata(nil, []byte(`{}`)))
}
