// Package canary holds the secrets of the tests, and searches for them in places where no secret
// may be. The testkit uses these secrets, and searches every log line, response, webhook, row and
// process output of all tests.
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

// mark is a part of every secret whose form allows words.
const mark = "NeverToBeSeen"

// The secrets that the testkit uses. API keys and signing secrets are made by the product.
const (
	Token       = mark + "-provider-token"
	AppSecret   = mark + "-app-secret"
	VerifyToken = mark + "-verify-token"
	// Master is the mark and words that fill 32 bytes, in base64.
	Master = "TmV2ZXJUb0JlU2VlbiwgYSBrZXkgb2YgMzIgYnl0ZXM="
	// PIN and WrongPIN are digits that no other test data contains.
	PIN      = "739164"
	WrongPIN = "739165"
)

// Kind is a kind of secret. Check accepts the kinds that a place shows by contract.
type Kind string

// The kinds that are searched for.
const (
	Planted       Kind = "a planted secret"
	Digits        Kind = "a PIN"
	APIKey        Kind = "an API key"
	SigningSecret Kind = "a signing secret"
)

// Find returns the kinds of secrets in a text.
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

// showsSigning searches for noted secrets: it looks up every run of characters that is as long as
// a secret. It uses no regular expression, which would take a third of the time of all tests.
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

// marks are the forms of the mark: as it is, in hex, and in base64 at each of the three offsets.
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
	// Only as a whole word, because ids, hex and fractions of a second may contain the digits.
	pin    = regexp.MustCompile(`(^|[^0-9A-Za-z.])(` + PIN + `|` + WrongPIN + `)($|[^0-9A-Za-z])`)
	apiKey = regexp.MustCompile(`svc_live_[A-Za-z0-9_-]{24}`)
	// noted holds the signing secrets, because their form cannot be told from other texts.
	noted sync.Map
)

const signingLength = 43

// Note adds a signing secret to those that are searched for.
func Note(signingSecret string) { noted.Store(signingSecret, true) }

// Check fails the test when a text contains a secret of a kind that the place does not show by
// contract.
func Check(t testing.TB, where string, text []byte, shown ...Kind) {
	for _, kind := range Find(text) {
		if !slices.Contains(shown, kind) {
			t.Helper() // only here, because a fuzz target must not call it
			t.Errorf("%s shows %s: %q", where, kind, text[:min(len(text), 1_000)])
		}
	}
}

// Logger returns a logger that fails the test when a secret is logged, at any level. It checks the
// lines that operators see, and the attributes before they are masked. Further handlers get the
// lines too.
func Logger(t testing.TB, more ...slog.Handler) *slog.Logger {
	t.Helper()
	operators, err := telemetry.NewLogger(watch{t}, "debug", "json")
	if err != nil {
		t.Fatal(err)
	}
	bare := slog.NewTextHandler(watch{t}, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(slog.NewMultiHandler(append(more, operators.Handler(), bare)...))
}

// watch is a writer that checks every line.
type watch struct{ t testing.TB }

func (w watch) Write(line []byte) (int, error) {
	Check(w.t, "the log", line)
	return len(line), nil
}
