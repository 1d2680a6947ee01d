package cloud_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider/cloud"
)

const signatureHeader = "X-Hub-Signature-256"

func verifier(t *testing.T, appSecrets ...string) *cloud.Client {
	t.Helper()
	client, err := cloud.New(cloud.Config{AppID: "2", AppSecrets: secrets(appSecrets...), VerifyToken: "the-verify-token"})
	require.NoError(t, err)
	return client
}

func signed(algorithm func() hash.Hash, secret string, body []byte) string {
	mac := hmac.New(algorithm, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func TestVerify_TakesEitherSecret(t *testing.T) {
	t.Parallel()
	client := verifier(t, "newer", "older")
	body := []byte(`{"entry":[{"text":"\u00e9 é \/"}]}`)
	for i, secret := range []string{"newer", "older"} {
		fitting, err := client.Verify(http.Header{signatureHeader: {"sha256=" + signed(sha256.New, secret, body)}}, body)
		require.NoError(t, err)
		require.Equal(t, i, fitting, "which one is told, so that a rotation can be ended")
	}
	_, err := client.Verify(http.Header{signatureHeader: {"sha256=" + signed(sha256.New, "newer", nil)}}, nil)
	require.NoError(t, err, "an empty body can be signed too")
}

func TestVerify_RefusesForgeries(t *testing.T) {
	t.Parallel()
	client := verifier(t, "newer", "older")
	body := []byte(`{"entry":[{"id":"4","text":"\u00e9"}]}`)
	right := signed(sha256.New, "newer", body)
	var reserialized bytes.Buffer
	require.NoError(t, json.Indent(&reserialized, body, "", " "))
	forgeries := map[string]struct {
		values []string
		body   []byte
	}{
		"no header":            {nil, body},
		"an empty header":      {[]string{""}, body},
		"two headers":          {[]string{"sha256=" + right, "sha256=" + right}, body},
		"a list in one header": {[]string{"sha256=" + right + ",sha256=" + right}, body},
		"no prefix":            {[]string{right}, body},
		"the prefix alone":     {[]string{"sha256="}, body},
		"another prefix":       {[]string{"sha1=" + right}, body},
		"an upper-case prefix": {[]string{"SHA256=" + right}, body},
		"upper-case digits":    {[]string{"sha256=" + strings.ToUpper(right)}, body},
		"a space before":       {[]string{" sha256=" + right}, body},
		"a space inside":       {[]string{"sha256= " + right}, body},
		"a newline after":      {[]string{"sha256=" + right + "\n"}, body},
		"one digit more":       {[]string{"sha256=" + right + "0"}, body},
		"twice the digits":     {[]string{"sha256=" + right + right}, body},
		"no hex digits":        {[]string{"sha256=" + strings.Repeat("z", 64)}, body},
		"zeros":                {[]string{"sha256=" + strings.Repeat("0", 64)}, body},
		"base64":               {[]string{"sha256=" + base64.StdEncoding.EncodeToString([]byte(right))[:64]}, body},
		"SHA-1":                {[]string{"sha256=" + signed(sha1.New, "newer", body)}, body},
		"SHA-512, cut":         {[]string{"sha256=" + signed(sha512.New, "newer", body)[:64]}, body},
		"another secret":       {[]string{"sha256=" + signed(sha256.New, "guessed", body)}, body},
		"no secret":            {[]string{"sha256=" + signed(sha256.New, "", body)}, body},
		"the secrets joined":   {[]string{"sha256=" + signed(sha256.New, "newer,older", body)}, body},
		"a hash without a key": {[]string{"sha256=" + fmt.Sprintf("%x", sha256.Sum256(body))}, body},
		"secret as a suffix":   {[]string{"sha256=" + fmt.Sprintf("%x", sha256.Sum256(append(bytes.Clone(body), "newer"...)))}, body},
		"another body":         {[]string{"sha256=" + right}, []byte(`{}`)},
		"no body":              {[]string{"sha256=" + right}, nil},
		"a longer body":        {[]string{"sha256=" + right}, append(bytes.Clone(body), ' ')},
		"a body cut short":     {[]string{"sha256=" + right}, body[:len(body)-1]},
		"serialized again":     {[]string{"sha256=" + right}, reserialized.Bytes()},
		"unescaped":            {[]string{"sha256=" + right}, bytes.ReplaceAll(body, []byte(`\u00e9`), []byte("é"))},
	}
	for i := range 64 {
		forgeries[fmt.Sprintf("truncated to %d digits", i)] = struct {
			values []string
			body   []byte
		}{[]string{"sha256=" + right[:i]}, body}
		changed := []byte(right)
		changed[i] ^= 1
		forgeries[fmt.Sprintf("digit %d changed", i)] = struct {
			values []string
			body   []byte
		}{[]string{"sha256=" + string(changed)}, body}
	}
	for i := range body {
		changed := bytes.Clone(body)
		changed[i] ^= 1
		forgeries[fmt.Sprintf("byte %d changed", i)] = struct {
			values []string
			body   []byte
		}{[]string{"sha256=" + right}, changed}
	}
	for name, forgery := range forgeries {
		header := http.Header{}
		if forgery.values != nil {
			header[signatureHeader] = forgery.values
		}
		_, err := client.Verify(header, forgery.body)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), right)
	}
	_, err := client.Verify(http.Header{"X-Hub-Signature": {"sha1=" + signed(sha1.New, "newer", body)}}, body)
	require.Error(t, err, "the network's older header")
}

func TestVerify_WithoutASecretTakesNothing(t *testing.T) {
	t.Parallel()
	for _, none := range [][]string{nil, {""}, {"", ""}} {
		_, err := verifier(t, none...).Verify(http.Header{signatureHeader: {"sha256=" + signed(sha256.New, "", nil)}}, nil)
		require.ErrorContains(t, err, "PARLEY_PROVIDER_APP_SECRET")
	}
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	client := verifier(t, "secret")
	query := func(mode, token, challenge string) url.Values {
		return url.Values{"hub.mode": {mode}, "hub.verify_token": {token}, "hub.challenge": {challenge}}
	}
	answer, ours := client.Challenge(query("subscribe", "the-verify-token", "1158201444"))
	require.True(t, ours)
	require.Equal(t, "1158201444", answer)
	for name, wrong := range map[string]url.Values{
		"another token": query("subscribe", "the-verify-tokem", "1"),
		"a longer one":  query("subscribe", "the-verify-token2", "1"),
		"no token":      query("subscribe", "", "1"),
		"another mode":  query("unsubscribe", "the-verify-token", "1"),
		"no challenge":  query("subscribe", "the-verify-token", ""),
		"a long one":    query("subscribe", "the-verify-token", strings.Repeat("x", 2000)),
		"nothing":       {},
	} {
		answer, ours := client.Challenge(wrong)
		require.False(t, ours, name)
		require.Empty(t, answer, name)
	}
	bare, err := cloud.New(cloud.Config{})
	require.NoError(t, err)
	_, ours = bare.Challenge(query("subscribe", "", "1"))
	require.False(t, ours, "no token is not an empty one")
}
