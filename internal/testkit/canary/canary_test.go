package canary_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/signature"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

func TestFind_EachKind_Found(t *testing.T) {
	t.Parallel()
	key, signing, unknown := "svc_live_"+strings.Repeat("aB3_", 6), signature.NewSecret(), signature.NewSecret()
	canary.Note(signing)
	master, err := base64.StdEncoding.DecodeString(canary.Master)
	require.NoError(t, err)
	require.Len(t, master, 32)
	found := map[string]canary.Kind{
		`{"pin":"` + canary.PIN + `"}`: canary.Digits, "pin=" + canary.WrongPIN: canary.Digits, canary.PIN: canary.Digits,
		"Bearer " + key: canary.APIKey, "<" + key + ">": canary.APIKey,
		`"secret":"` + signing + `"`: canary.SigningSecret, signing: canary.SigningSecret,
		canary.Master: canary.Planted, string(master): canary.Planted,
	}
	for _, secret := range []string{canary.Token, canary.AppSecret, canary.VerifyToken} {
		found[`{"x":"`+secret+`"}`], found[hex.EncodeToString([]byte(secret))] = canary.Planted, canary.Planted
		found[fmt.Sprintf("%X", secret)] = canary.Planted
		for before := range 4 {
			found[base64.StdEncoding.EncodeToString([]byte(strings.Repeat("~", before)+secret))] = canary.Planted
		}
	}
	for text, kind := range found {
		require.Equal(t, []canary.Kind{kind}, canary.Find([]byte(text)), text)
	}
	both := `{"pin":"` + canary.PIN + `","token":"` + canary.Token + `"}`
	require.Equal(t, []canary.Kind{canary.Planted, canary.Digits}, canary.Find([]byte(both)))
	for _, text := range []string{
		"", "never to be seen", "09:26:53." + canary.PIN + "Z", "1" + canary.PIN, canary.PIN + "0", "a" + canary.PIN + "f",
		"svc_live_[hidden]", key[:20], unknown, signing[1:],
	} {
		require.Empty(t, canary.Find([]byte(text)), text)
	}
}

// witness is a testing.TB that records its failures.
type witness struct {
	testing.TB

	said []string
}

func (w *witness) Helper() {}

func (w *witness) Errorf(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

func TestLogger_SecretInAnyAttribute_FailsTheTest(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, leak := range map[string]func(context.Context, *slog.Logger){
		"the message": func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, canary.Token) }, //nolint:sloglint // that is the leak
		"an error": func(ctx context.Context, log *slog.Logger) {
			log.ErrorContext(ctx, "x", "error", errors.New(canary.Token))
		},
		"a debug line": func(ctx context.Context, log *slog.Logger) { log.DebugContext(ctx, "x", "pin", canary.PIN) },
		"a hidden field": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(ctx, "x", "y", struct{ t string }{canary.Token})
		},
		"bytes":                func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "x", "y", []byte(canary.AppSecret)) },
		"what would be masked": func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "x", "authorization", canary.Token) },
		"the logger's own":     func(ctx context.Context, log *slog.Logger) { log.With("y", canary.Token).InfoContext(ctx, "x") },
		"the context": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(telemetry.With(ctx, slog.String("y", canary.Token)), "x")
		},
	} {
		w := &witness{TB: t}
		leak(ctx, canary.Logger(w))
		require.NotEmpty(t, w.said, name)
	}
	w := &witness{TB: t}
	var seen strings.Builder
	canary.Logger(w, slog.NewTextHandler(&seen, nil)).InfoContext(ctx, "request.handled", "status", 200, "token", telemetry.Secret(canary.Token))
	require.Empty(t, w.said)
	require.Contains(t, seen.String(), "request.handled", "others see the lines too")
}

func TestCheck_SecretShownByContract_Accepted(t *testing.T) {
	t.Parallel()
	w, key := &witness{TB: t}, []byte("svc_live_"+strings.Repeat("aB3_", 6))
	canary.Check(w, "a new key", key, canary.APIKey)
	require.Empty(t, w.said)
	canary.Check(w, "a list", key)
	canary.Check(w, "a new key", append(key, canary.Token...), canary.APIKey)
	require.Len(t, w.said, 2)
}
