package parley

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// WebhookErrorKind says why a webhook must not be believed.
type WebhookErrorKind string

// The kinds of a WebhookError.
const (
	WebhookNoSecret        WebhookErrorKind = "no_secret"
	WebhookMissingHeader   WebhookErrorKind = "missing_header"
	WebhookMalformedHeader WebhookErrorKind = "malformed_header"
	WebhookBadTimestamp    WebhookErrorKind = "bad_timestamp"
	WebhookTooOld          WebhookErrorKind = "too_old"
	WebhookInTheFuture     WebhookErrorKind = "in_the_future"
	WebhookNoMatch         WebhookErrorKind = "no_match"
	WebhookMalformedBody   WebhookErrorKind = "malformed_body"
)

var webhookTexts = map[WebhookErrorKind]string{
	WebhookNoSecret:        "no secret was given, or an empty one",
	WebhookMissingHeader:   "the request has no X-Svc-Signature",
	WebhookMalformedHeader: "X-Svc-Signature has not the form t=<unix seconds>,v1=<hex>",
	WebhookBadTimestamp:    "the time in X-Svc-Signature is not a number of seconds",
	WebhookTooOld:          "the signature is older than the tolerance: an old delivery, or a wrong clock here",
	WebhookInTheFuture:     "the signature's time is later than now: the clock here is wrong",
	WebhookNoMatch:         "no signature matches: another secret, a changed body, or a forgery",
	WebhookMalformedBody:   "the body is not JSON",
}

// WebhookError means that a webhook must not be believed. Answer it with 401.
type WebhookError struct{ Kind WebhookErrorKind }

func (e *WebhookError) Error() string { return "parley: webhook: " + webhookTexts[e.Kind] }

// WebhookEvent is a verified event.
type WebhookEvent struct {
	Type       EventType
	UID        string // equal over retries and replays: dedupe on it
	ID         string // the event's key in its domain
	DeliveryID string
	Attempt    int             // 1 for the first attempt of this delivery
	Source     string          // provider, or svc
	Body       json.RawMessage // decode it into the type of the event, such as MessageReceivedEvent
}

// Verifier verifies webhooks.
type Verifier struct {
	Secrets   []string         // any of them may match; several while you change the secret
	Tolerance time.Duration    // the largest difference between the signature's time and the clock; NewVerifier sets 5 minutes
	Now       func() time.Time // the clock; nil is time.Now
}

// NewVerifier returns a verifier with the tolerance of 5 minutes.
func NewVerifier(secrets ...string) *Verifier {
	return &Verifier{Secrets: secrets, Tolerance: 5 * time.Minute}
}

// Verify returns the event if any signature matches any of the secrets, and a WebhookError if not. The
// body must be the raw bytes as they came.
func (v *Verifier) Verify(header http.Header, body []byte) (*WebhookEvent, error) {
	if kind := v.verify(header.Get("X-Svc-Signature"), body); kind != "" {
		return nil, &WebhookError{kind}
	}
	if !json.Valid(body) {
		return nil, &WebhookError{WebhookMalformedBody}
	}
	attempt, _ := strconv.Atoi(header.Get("X-Svc-Attempt"))
	return &WebhookEvent{
		Type: EventType(header.Get("X-Svc-Event")), UID: header.Get("X-Svc-Event-Uid"), ID: header.Get("X-Svc-Event-Id"),
		DeliveryID: header.Get("X-Svc-Delivery-Id"), Attempt: attempt, Source: header.Get("X-Svc-Source"), Body: body,
	}, nil
}

var (
	signatureForm = regexp.MustCompile(`^t=([^,]*)((?:,v1=[0-9a-f]{64})+)$`)
	timeForm      = regexp.MustCompile(`^[0-9]{1,11}$`)
)

func (v *Verifier) verify(header string, body []byte) WebhookErrorKind {
	if len(v.Secrets) == 0 || slices.Contains(v.Secrets, "") {
		return WebhookNoSecret // anyone could sign with an empty one
	}
	if header == "" {
		return WebhookMissingHeader
	}
	parts := signatureForm.FindStringSubmatch(header)
	if parts == nil {
		return WebhookMalformedHeader
	}
	if !timeForm.MatchString(parts[1]) {
		return WebhookBadTimestamp
	}
	signedAt, _ := strconv.ParseInt(parts[1], 10, 64) // it is digits
	now := time.Now
	if v.Now != nil {
		now = v.Now
	}
	age, tolerance := now().Unix()-signedAt, int64(v.Tolerance/time.Second)
	if age > tolerance {
		return WebhookTooOld
	}
	if -age > tolerance {
		return WebhookInTheFuture
	}
	if !v.matches(parts[1], strings.Split(parts[2], ",v1=")[1:], body) {
		return WebhookNoMatch
	}
	return ""
}

func (v *Verifier) matches(signedAt string, signatures []string, body []byte) bool {
	matches := false
	for _, secret := range v.Secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(signedAt + "."))
		mac.Write(body)
		expected := []byte(hex.EncodeToString(mac.Sum(nil)))
		for _, signature := range signatures {
			matches = hmac.Equal([]byte(signature), expected) || matches
		}
	}
	return matches
}
