package signature_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/signature"
)

const (
	older = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
	newer = "__8-_v38-_r5-Pf29fTz8vHw7-7t7Ovq6ejn5uXk4-I"
	body  = `{"id":"evt_1"}`

	// Each by: printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac SECRET.
	byOlder = "2afde0c1f474f40f443f7d280196af363b43a9f60ebf0e790fd8f61fbbecb577"
	byNewer = "c7af8ecc85b769e4c8628220264acced00edfb5dc7e6704bed63de3dc64193a2"
)

var signedAt = time.Unix(1_700_000_000, 0)

func TestSign_KnownValues_OfOpenSSL(t *testing.T) {
	t.Parallel()
	require.Equal(t, "t=1700000000,v1="+byOlder, signature.Sign(signedAt, []byte(body), older))
	require.Equal(t, "t=1700000000,v1="+byNewer+",v1="+byOlder, signature.Sign(signedAt.Add(999*time.Millisecond), []byte(body), newer, older),
		"one for each secret, in their order; a second has no parts")
	require.Equal(t, "t=1760000000,v1=0a5307ac09b98f2bf798fcf8847d97049579cf6362de108c1b29c287230eccce",
		signature.Sign(time.Unix(1_760_000_000, 0), []byte("\x00\xff\xfe\r\n\U0001F642"), older), "bytes, not text")
	require.Equal(t, "t=0,v1=25eaadeea1f4901ca4f68be1bb0948e532201abbab7bfa762f2ce4d8ad1f67b9", signature.Sign(time.Unix(0, 0), nil, older))
	require.Equal(t, "sha256=a3d14d0d0762676b63ec3b0980e94fa2920c302da1b94ae4cfc13f2a6bcbe1b1", signature.Sign256([]byte(body), older))
}

func TestNewSecret_Length_AndUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		secret := signature.NewSecret()
		require.Len(t, secret, 43)
		raw, err := base64.RawURLEncoding.DecodeString(secret)
		require.NoError(t, err)
		require.Len(t, raw, 32)
		seen[secret] = true
	}
	require.Len(t, seen, 1000)
}

func TestVerify_EachCase_FailingStep(t *testing.T) {
	t.Parallel()
	rotated := "t=1700000000,v1=" + byNewer + ",v1=" + byOlder
	for name, c := range map[string]struct {
		header  string
		secrets []string
	}{
		"the only secret":                {"t=1700000000,v1=" + byOlder, []string{older}},
		"the old secret during rotation": {rotated, []string{older}},
		"the new secret during rotation": {rotated, []string{newer}},
		"both sides rotate":              {rotated, []string{"another", newer, older}},
		"after rotation":                 {"t=1700000000,v1=" + byNewer, []string{newer, older}},
		"upper case":                     {"t=1700000000,v1=" + strings.ToUpper(byOlder), []string{older}},
		"another order":                  {"v1=" + byOlder + ",t=1700000000", []string{older}},
		"a later scheme beside ours":     {"t=1700000000,v2=x=y,v1=" + byOlder + ",v3=", []string{older}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, signature.Verify(c.header, []byte(body), c.secrets, signedAt, signature.Tolerance))
		})
	}
}

// refused checks that err is a *signature.Error and returns it.
func refused(t require.TestingT, err error) *signature.Error {
	var failed *signature.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, failed.Reason, failed.Error())
	return failed
}

func TestVerify_MalformedHeader_PartNamed(t *testing.T) {
	t.Parallel()
	good := ",v1=" + byOlder
	for header, part := range map[string]string{
		"": "",
		"t=1700000000" + strings.Repeat(good, 61): "",
		byOlder:                                           byOlder,
		"t=1700000000,":                                   "",
		"t=1700000000,=" + byOlder:                        "=" + byOlder,
		"t=1700000000, v1=" + byOlder:                     " v1",
		"t=1700000000":                                    "v1",
		"t=1700000000,v2=" + byOlder:                      "v1",
		"t=1700000000,v1=":                                "v1",
		"t=1700000000,v1=2a":                              "v1",
		"t=1700000000,v1=" + byOlder[:62]:                 "v1",
		"t=1700000000,v1=" + byOlder[:63]:                 "v1",
		"t=1700000000,v1=" + byOlder + "0":                "v1",
		"t=1700000000,v1=" + byOlder + byOlder:            "v1",
		"t=1700000000,v1=" + byOlder + " ":                "v1",
		"t=1700000000,v1=" + byOlder[:63] + "g":           "v1",
		"t=1700000000,v1=" + byOlder + ",v1=":             "v1",
		"v1=" + byOlder:                                   "t",
		"t=" + good:                                       "t",
		"t=1700000000" + good + ",t=1700000000":           "t",
		"t=1,t=1700000000" + good:                         "t",
		"t=0,t=1700000000" + good:                         "t",
		"t=-1700000000" + good:                            "t",
		"t=+1700000000" + good:                            "t",
		"t=01700000000" + good:                            "t",
		"t=1700000000.0" + good:                           "t",
		"t=1.7e9" + good:                                  "t",
		"t=0x6553f100" + good:                             "t",
		"t=1700000000000" + good:                          "t",
		"t= 1700000000" + good:                            "t",
		"t=\u0661\u0667\u0660\u0660" + good:               "t",
		"t=99999999999999999999999999999999999999" + good: "t",
	} {
		failed := refused(t, signature.Verify(header, []byte(body), []string{older}, signedAt, signature.Tolerance))
		require.Equal(t, signature.Malformed, failed.Step, "%s", header)
		require.Equal(t, part, failed.Part, "%s", header)
		require.Zero(t, failed.Skew)
	}
}

func TestParse_TruncatedSignature_LengthNamed(t *testing.T) {
	t.Parallel()
	_, err := signature.Parse("t=1700000000,v1=" + byOlder[:62])
	require.EqualError(t, err, "malformed header: a v1 has 62 characters instead of 64")
}

func TestVerify_ClockSkew_SkewNamed(t *testing.T) {
	t.Parallel()
	header := signature.Sign(signedAt, []byte(body), older)
	verify := func(now time.Time) error {
		return signature.Verify(header, []byte(body), []string{older}, now, signature.Tolerance)
	}
	require.NoError(t, verify(signedAt.Add(300*time.Second)), "a difference of exactly the tolerance is accepted")
	require.NoError(t, verify(signedAt.Add(300*time.Second+999*time.Millisecond)), "seconds are compared, as they are signed")
	require.NoError(t, verify(signedAt.Add(-300*time.Second)))

	old := refused(t, verify(signedAt.Add(301*time.Second)))
	require.Equal(t, signature.ClockSkew, old.Step)
	require.Equal(t, -301*time.Second, old.Skew)
	require.Equal(t, "clock skew: t is 5m1s old, more than 5m0s", old.Reason)

	early := refused(t, verify(signedAt.Add(-301*time.Second)))
	require.Equal(t, 301*time.Second, early.Skew)
	require.Equal(t, "clock skew: t is 5m1s in the future, more than 5m0s", early.Reason)

	require.Positive(t, refused(t, verify(time.Time{})).Skew, "a skew that does not fit in a Duration")
	far := refused(t, signature.Verify(signature.Sign(time.Unix(0, 0), nil, older), nil, []string{older}, time.Unix(1<<40, 0), signature.Tolerance))
	require.Negative(t, far.Skew)
}

func TestVerify_OtherBodyOrSecret_NoMatch(t *testing.T) {
	t.Parallel()
	header := signature.Sign(signedAt, []byte(body), older, newer)
	later := strings.Replace(header, "t=1700000000", "t=1700000001", 1)
	for name, err := range map[string]error{
		"another secret":    signature.Verify(header, []byte(body), []string{"another"}, signedAt, signature.Tolerance),
		"no secret":         signature.Verify(header, []byte(body), nil, signedAt, signature.Tolerance),
		"an altered body":   signature.Verify(header, []byte(body+"\n"), []string{older}, signedAt, signature.Tolerance),
		"an altered time":   signature.Verify(later, []byte(body), []string{older}, signedAt, signature.Tolerance),
		"zeroes":            signature.Verify("t=1700000000,v1="+strings.Repeat("0", 64), []byte(body), []string{older}, signedAt, signature.Tolerance),
		"the other header":  signature.Verify("t=1700000000,v1="+signature.Sign256([]byte(body), older)[7:], []byte(body), []string{older}, signedAt, signature.Tolerance),
		"an unset secret":   signature.Verify(signature.Sign(signedAt, []byte(body), ""), []byte(body), []string{""}, signedAt, signature.Tolerance),
		"the decoded bytes": signature.Verify(header, []byte(body), []string{decoded(t, older)}, signedAt, signature.Tolerance),
	} {
		require.Equal(t, signature.NoMatch, refused(t, err).Step, name)
	}
}

func decoded(t *testing.T, secret string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(secret)
	require.NoError(t, err)
	return string(raw)
}

// A signed body verifies with each of its secrets, and not when any bit of it was changed.
func TestSign_AnyBody_VerifiesUnlessChanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		at := time.Unix(rapid.Int64Range(0, 99_999_999_999).Draw(t, "at"), 0)
		secrets := rapid.SliceOfN(rapid.StringN(1, -1, 200), 1, 5).Draw(t, "secrets")
		header := signature.Sign(at, raw, secrets...)

		signed, err := signature.Parse(header)
		require.NoError(t, err)
		require.Equal(t, at.UTC(), signed.At)
		require.Len(t, signed.Signatures, len(secrets))
		for i, secret := range secrets {
			mac := hmac.New(sha256.New, []byte(secret))
			fmt.Fprintf(mac, "%d.%s", at.Unix(), raw)
			require.Equal(t, hex.EncodeToString(mac.Sum(nil)), hex.EncodeToString(signed.Signatures[i][:]))
			require.NoError(t, signature.Verify(header, raw, []string{secret}, at, 0))
		}

		altered := append([]byte{}, raw...)
		if len(altered) > 0 {
			altered[rapid.IntRange(0, len(raw)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			require.Equal(t, signature.NoMatch, refused(t, signature.Verify(header, altered, secrets, at, 0)).Step)
		}
		cut := rapid.IntRange(0, len(header)-1).Draw(t, "cut")
		if short, err := signature.Parse(header[:cut]); err == nil {
			require.Less(t, len(short.Signatures), len(secrets), "a truncated header is refused, or has fewer whole signatures")
		}
	})
}

// FuzzParse checks that accepted headers are complete, and equal after they are written again.
func FuzzParse(f *testing.F) {
	for _, header := range []string{
		"", "t=1700000000,v1=" + byOlder, "t=1700000000,v1=" + byNewer + ",v1=" + byOlder, "t=1,t=2,v1=" + byOlder, "v1=,t=",
		"t=1700000000,v1=" + byOlder[:63], "t=1700000000,v0=x,v1=" + byOlder, "t=01,v1=" + strings.ToUpper(byOlder), ",,,", "t=1, v1=" + byOlder,
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		signed, err := signature.Parse(header)
		if err != nil {
			require.Equal(t, signature.Malformed, refused(t, err).Step)
			require.Empty(t, signed)
			return
		}
		require.NotEmpty(t, signed.Signatures)
		written := fmt.Sprintf("t=%d", signed.At.Unix())
		for _, sum := range signed.Signatures {
			written += ",v1=" + hex.EncodeToString(sum[:])
		}
		again, err := signature.Parse(written)
		require.NoError(t, err)
		require.Equal(t, signed, again)
		require.Equal(t, 1, strings.Count(","+header, ",t="))
		require.Error(t, signature.Verify(header, []byte(body), []string{"never used"}, signed.At, 0))
	})
}
