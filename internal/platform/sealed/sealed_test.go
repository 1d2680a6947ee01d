package sealed_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/sealed"
)

func key(t *testing.T) string {
	t.Helper()
	raw := make([]byte, sealed.KeyBytes)
	_, err := rand.Read(raw)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(raw)
}

func box(t *testing.T, purpose string, keys ...string) *sealed.Box {
	t.Helper()
	ring, err := sealed.NewKeyring(keys)
	require.NoError(t, err)
	b, err := ring.Box(purpose)
	require.NoError(t, err)
	return b
}

func TestBox_OtherIdentityOrChanged_DoesNotOpen(t *testing.T) {
	t.Parallel()
	b := box(t, "answers", key(t))
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SliceOf(rapid.Byte()).Draw(t, "value")
		place := rapid.SliceOf(rapid.Byte()).Draw(t, "place")
		other := rapid.SliceOf(rapid.Byte()).Filter(func(o []byte) bool { return !bytes.Equal(o, place) }).Draw(t, "other")
		ciphertext, err := b.Seal(value, place)
		require.NoError(t, err)
		opened, err := b.Open(ciphertext, place)
		require.NoError(t, err)
		require.True(t, bytes.Equal(value, opened))
		_, err = b.Open(ciphertext, other)
		require.Error(t, err)
		at := rapid.IntRange(0, len(ciphertext)-1).Draw(t, "at")
		ciphertext[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		_, err = b.Open(ciphertext, place)
		require.Error(t, err)
	})
}

func TestBox_KeysRotated_OldValuesOpen(t *testing.T) {
	t.Parallel()
	older, newer := key(t), key(t)
	before, during, after := box(t, "p", older), box(t, "p", newer, older), box(t, "p", newer)
	ciphertext, err := before.Seal([]byte("value"), nil)
	require.NoError(t, err)

	opened, err := during.Open(ciphertext, nil)
	require.NoError(t, err, "an older key opens while it is in the ring")
	require.Equal(t, "value", string(opened))
	_, err = after.Open(ciphertext, nil)
	require.Error(t, err, "a removed key does not open")

	ciphertext, err = during.Seal([]byte("value"), nil)
	require.NoError(t, err)
	_, err = after.Open(ciphertext, nil)
	require.NoError(t, err, "the first key seals")
}

func TestBox_OtherPurpose_DoesNotOpen(t *testing.T) {
	t.Parallel()
	master := key(t)
	ciphertext, err := box(t, "cursor", master).Seal([]byte("value"), nil)
	require.NoError(t, err)
	_, err = box(t, "answer", master).Open(ciphertext, nil)
	require.Error(t, err)
}

func TestMAC_SameParts_Match(t *testing.T) {
	t.Parallel()
	older, newer := key(t), key(t)
	mac := func(keys ...string) *sealed.MAC {
		ring, err := sealed.NewKeyring(keys)
		require.NoError(t, err)
		m, err := ring.MAC("idempotency")
		require.NoError(t, err)
		return m
	}
	fingerprint := mac(older).Sum([]byte("POST"), []byte("/labels"))
	require.True(t, mac(newer, older).Matches(fingerprint, []byte("POST"), []byte("/labels")))
	require.False(t, mac(newer, older).Matches(fingerprint, []byte("POS"), []byte("T/labels")), "the borders of the parts count")
	require.False(t, mac(newer).Matches(fingerprint, []byte("POST"), []byte("/labels")))
	require.False(t, mac(older).Matches(nil))
}

func TestNewKeyring_WeakKeys_Refused(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{nil, {""}, {"short"}, {base64.StdEncoding.EncodeToString([]byte("sixteen bytes ..")), key(t)}} {
		_, err := sealed.NewKeyring(keys)
		require.ErrorContains(t, err, "openssl rand")
	}
}
