package truth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// checkSigned checks that every request has one signature for each active secret, here and with
// the implementation in Node.
func (c *checker) checkSigned(t testing.TB) {
	t.Helper()
	var recorded []receiver.Recorded
	for _, request := range c.Requests {
		if to, known := c.byPath[request.Path]; known {
			recorded = append(recorded, receiver.Recorded{Request: request, Secrets: activeAt(to.Secrets, request)})
		}
	}
	if len(recorded) == 0 {
		return
	}
	verified := receiver.VerifyWithNode(t, slices.Values(recorded))
	c.found.Verified = verified.Verified
	for _, failure := range verified.Failures {
		request := recorded[failure.Line-1]
		c.violated(Signed, "attempt %d of %s to %s does not verify: %s, %s",
			request.Attempt(), request.DeliveryID(), c.byPath[request.Path].ID, failure.Step, failure.Detail)
	}
	if more := verified.Failed - len(verified.Failures); more > 0 {
		c.violated(Signed, "%d more requests do not verify", more)
	}
	if verified.Total != len(recorded) {
		c.violated(Signed, "%d of %d requests were looked at", verified.Total, len(recorded))
	}
}

// longestAttempt is the longest time between the signing and the arrival of a request.
const longestAttempt = 12 * time.Second

// activeAt returns the secrets that must have signed a request. A secret that was added or revoked
// at about that time is included if it signed.
func activeAt(secrets []Secret, request receiver.Request) (active []string) {
	signature := request.Header.Get("X-Svc-Signature")
	stamp, _, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",")
	begun := request.At
	if seconds, err := strconv.ParseInt(stamp, 10, 64); err == nil && time.Unix(seconds, 0).Before(begun) {
		begun = time.Unix(seconds, 0)
	}
	if earliest := request.At.Add(-longestAttempt); begun.Before(earliest) {
		begun = earliest
	}
	for _, secret := range secrets {
		possible, certain := secret.signs(begun, request.At)
		if certain || possible && strings.Contains(signature, signedBy(secret.Text, stamp, request.Body)) {
			active = append(active, secret.Text)
		}
	}
	return active
}

// signs reports whether an attempt between two times may, and whether it must, be signed with the
// secret.
func (s Secret) signs(begun, arrived time.Time) (possible, certain bool) {
	possible = !arrived.Before(s.Minted.Begin.Add(-Tolerance))
	certain = possible && (s.Minted.End.IsZero() || begun.After(s.Minted.End.Add(Tolerance)))
	if !s.Revoked.End.IsZero() {
		possible = possible && !begun.After(s.Revoked.End.Add(Tolerance))
		certain = certain && arrived.Before(s.Revoked.Begin.Add(-Tolerance))
	}
	return possible, certain
}

func signedBy(secret, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
