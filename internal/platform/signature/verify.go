package signature

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Step is a step of the verification.
type Step string

// The steps, in their order.
const (
	Malformed Step = "malformed_header"
	ClockSkew Step = "clock_skew"
	NoMatch   Step = "no_match"
)

// Error names the step that failed.
type Error struct {
	Step   Step
	Reason string
	// Part is the wrong part of a malformed header: "t", "v1", the text of a part without a name,
	// or empty for the whole header.
	Part string
	// Skew is how far the header's time is ahead of the receiver's; negative when it is behind.
	Skew time.Duration
}

func (e *Error) Error() string { return e.Reason }

func malformed(part, format string, arguments ...any) *Error {
	return &Error{Step: Malformed, Part: part, Reason: "malformed header: " + fmt.Sprintf(format, arguments...)}
}

// Signed is a parsed header.
type Signed struct {
	// At is the time of the signature, in whole seconds.
	At time.Time
	// Signatures are the values of all v1.
	Signatures [][sha256.Size]byte

	// stamp is the text of t, which is a part of the signed bytes.
	stamp string
}

const (
	// maxHeaderBytes has room for ten times the five secrets that a subscription may have.
	maxHeaderBytes = 4096
	// maxStampDigits is enough until the year 5138. A time in milliseconds has more digits.
	maxStampDigits = 11
)

// Parse reads a header strictly: one t, at least one v1, each of exactly 32 bytes. Parts with
// other names are ignored, because later schemes may add them. Its error is always an *Error.
func Parse(header string) (Signed, error) {
	if header == "" {
		return Signed{}, malformed("", "it is empty")
	}
	if len(header) > maxHeaderBytes {
		return Signed{}, malformed("", "it has %d bytes, more than %d", len(header), maxHeaderBytes)
	}
	signed := Signed{Signatures: make([][sha256.Size]byte, 0, 2)}
	for segment := range strings.SplitSeq(header, ",") {
		name, value, found := strings.Cut(segment, "=")
		if !found || name == "" {
			return Signed{}, malformed(segment, "%q is not name=value", segment)
		}
		if err := signed.read(name, value); err != nil {
			return Signed{}, err
		}
	}
	if signed.stamp == "" {
		return Signed{}, malformed("t", "there is no t")
	}
	if len(signed.Signatures) == 0 {
		return Signed{}, malformed("v1", "there is no v1")
	}
	return signed, nil
}

func (s *Signed) read(name, value string) error {
	switch name {
	case "t":
		if s.stamp != "" {
			return malformed("t", "there is more than one t")
		}
		seconds, err := stamp(value)
		if err != nil {
			return err
		}
		s.stamp, s.At = value, time.Unix(seconds, 0).UTC()
	case "v1":
		sum, err := digest(value)
		if err != nil {
			return err
		}
		s.Signatures = append(s.Signatures, sum)
	default:
		if strings.TrimSpace(name) != name {
			return malformed(name, "there is a space around %q", name)
		}
	}
	return nil
}

// stamp accepts a time only in the form that Sign writes, because its text was signed.
func stamp(value string) (int64, error) {
	if value == "" {
		return 0, malformed("t", "t is empty")
	}
	for _, character := range []byte(value) {
		if character < '0' || character > '9' {
			return 0, malformed("t", "t is not a whole number of seconds")
		}
	}
	if len(value) > maxStampDigits {
		return 0, malformed("t", "t has %d digits; it counts seconds since 1970", len(value))
	}
	if value[0] == '0' && value != "0" {
		return 0, malformed("t", "t begins with a zero")
	}
	return strconv.ParseInt(value, 10, 64)
}

func digest(value string) (sum [sha256.Size]byte, err error) {
	if len(value) != digits {
		return sum, malformed("v1", "a v1 has %d characters instead of %d", len(value), digits)
	}
	var text [digits]byte
	copy(text[:], value)
	if _, err := hex.Decode(sum[:], text[:]); err != nil {
		return sum, malformed("v1", "a v1 is not hexadecimal")
	}
	return sum, nil
}

// Verify accepts a body when any signature of the header was made with any of the
// secrets, and its time is not further than tolerance from now. An empty secret matches
// nothing. Its error is always an *Error.
func Verify(header string, body []byte, secrets []string, now time.Time, tolerance time.Duration) error {
	signed, err := Parse(header)
	if err != nil {
		return err
	}
	if err := signed.Fresh(now, tolerance); err != nil {
		return err
	}
	for _, secret := range secrets {
		if signed.Matches(body, secret) {
			return nil
		}
	}
	return &Error{Step: NoMatch, Reason: "no signature matches"}
}

// Fresh checks that the header's time is within tolerance of now. It compares whole seconds, as
// receivers in other languages do.
func (s Signed) Fresh(now time.Time, tolerance time.Duration) error {
	seconds := s.At.Unix() - now.Unix()
	skew := time.Duration(math.MaxInt64)
	if limit := int64(skew / time.Second); max(seconds, -seconds) <= limit {
		skew = time.Duration(seconds) * time.Second
	} else if seconds < 0 {
		skew = -skew
	}
	switch {
	case skew.Abs() <= tolerance:
		return nil
	case skew < 0:
		return &Error{Step: ClockSkew, Skew: skew, Reason: fmt.Sprintf("clock skew: t is %s old, more than %s", -skew, tolerance)}
	default:
		return &Error{Step: ClockSkew, Skew: skew, Reason: fmt.Sprintf("clock skew: t is %s in the future, more than %s", skew, tolerance)}
	}
}

// Matches reports whether any signature was made with the secret, in constant time for each. It
// does not check the header's time.
func (s Signed) Matches(body []byte, secret string) bool {
	if secret == "" {
		return false // everybody can sign with an empty secret
	}
	var room [sha256.Size]byte
	want := timed(secret, []byte(s.stamp), body).Sum(room[:0])
	matches := 0
	for i := range s.Signatures {
		matches |= subtle.ConstantTimeCompare(s.Signatures[i][:], want)
	}
	return matches == 1
}
