// Package canary holds the secrets of the tests and looks for them where no secret may
// stand. The testkit plants them, and looks at every log line, answer, webhook, row and
// process output: a suite is watched without saying so.
package canary

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// mark stands in every secret that may have words in it.
const mark = "NeverToBeSeen"

// The secrets that the testkit plants. Keys and signing secrets are the product's to make.
const (
	Token       = mark + "-provider-token"
	AppSecret   = mark + "-app-secret"
	VerifyToken = mark + "-verify-token"
	// Master is the mark and words that fill 32 bytes, in base64.
	Master = "TmV2ZXJUb0JlU2VlbiwgYSBrZXkgb2YgMzIgYnl0ZXM="
	// PIN and WrongPIN are digits that stand for nothing else.
	PIN      = "739164"
	WrongPIN = "739165"
)

// Kind is a kind of secret, for places whose contract is to show one.
type Kind string

// The kinds that are looked for.
const (
	Planted       Kind = "a planted secret"
	Digits        Kind = "a PIN"
	APIKey        Kind = "an API key"
	SigningSecret Kind = "a signing secret"
)

// Find names the kinds of secrets that stand in a text.
func Find(text []byte) (kinds []Kind) {
	if slices.ContainsFunc(marks(), func(form []byte) bool { return bytes.Contains(text, form) }) {
		kinds = append(kinds, Planted)
	}
	if bytes.Contains(text, []byte(PIN[:5])) && pin.Match(text) {
		kinds = append(kinds, Digits)
	}
	if bytes.Contains(text, []byte("svc_live_")) && apiKey.Match(text) {
		kinds = append(kinds, APIKey)
	}
	if showsSigning(text) {
		kinds = append(kinds, SigningSecret)
	}
	return kinds
}

// showsSigning looks for noted secrets wherever so many of their letters stand in a row. By
// hand: every answer and log line is looked at, and an expression takes a third of a suite.
func showsSigning(text []byte) bool {
	row := 0
	for i, c := range text {
		letter := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '-'
		if row++; !letter {
			row = 0
		}
		if row >= signingLength {
			if _, known := noted.Load(string(text[i+1-signingLength : i+1])); known {
				return true
			}
		}
	}
	return false
}

// marks are the forms of the mark: as it is, in hex, and in base64 after zero, one or two
// bytes that share a letter with it.
var marks = sync.OnceValue(func() [][]byte {
	inHex := []byte(hex.EncodeToString([]byte(mark)))
	forms := [][]byte{[]byte(mark), inHex, bytes.ToUpper(inHex)}
	for before := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), mark...))
		forms = append(forms, []byte(text[(before*8+5)/6:(before+len(mark))*8/6]))
	}
	return forms
})

var (
	// A word of its own: by chance the digits stand in ids, in hex and in fractions of a second.
	pin    = regexp.MustCompile(`(^|[^0-9A-Za-z.])(` + PIN + `|` + WrongPIN + `)($|[^0-9A-Za-z])`)
	apiKey = regexp.MustCompile(`svc_live_[A-Za-z0-9_-]{24}`)
	// The form of a signing secret is that of many words; those noted are secrets.
	noted sync.Map
)

const signingLength = 43

// Note has a signing secret looked for from now on.
func Note(signingSecret string) { noted.Store(signingSecret, true) }

// Check fails the test in whose text a secret stands that the place does not show by contract.
func Check(t testing.TB, where string, text []byte, shown ...Kind) {
	for _, kind := range Find(text) {
		if !slices.Contains(shown, kind) {
			t.Helper() // no sooner: a fuzz target must not call it
			t.Errorf("%s shows %s: %q", where, kind, text[:min(len(text), 1_000)])
		}
	}
}

// Logger fails the test in whose log a secret stands, at any level: in the lines that
// operators see, and in what they are made of, before anything is masked. More handlers may
// see the lines too.
func Logger(t testing.TB, more ...slog.Handler) *slog.Logger {
	t.Helper()
	operators, err := telemetry.NewLogger(watch{t}, "debug", "json")
	if err != nil {
		t.Fatal(err)
	}
	bare := slog.NewTextHandler(watch{t}, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(slog.NewMultiHandler(append(more, operators.Handler(), bare)...))
}

// watch looks at what is written.
type watch struct{ t testing.TB }

func (w watch) Write(line []byte) (int, error) {
	Check(w.t, "the log", line)
	return len(line), nil
}
