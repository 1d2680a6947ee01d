// Package signature signs webhook bodies and verifies what was signed. A header holds the
// time and one HMAC-SHA256 for each active secret, over `<t>.<raw body>`; the key is the
// secret's text as its owner was shown it. It keeps no secrets and reads no clock.
package signature

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strconv"
	"time"
)

const (
	// Header is where a delivery carries its signatures.
	Header = "X-Svc-Signature"
	// Header256 is where customer.* events also carry the body's signature without a time.
	Header256 = "X-Svc-Signature-256"
	// Tolerance is how far from their own time receivers let the time of a signature be.
	Tolerance = 300 * time.Second
	// SecretLength is how many characters a secret has.
	SecretLength = 43

	secretBytes = 32
	digits      = 2 * sha256.Size // of a signature in hexadecimal
)

// NewSecret is a signing secret to be shown once: characters that mean 32 random bytes.
func NewSecret() string {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// Sign is the header of one attempt: its time in whole seconds, then one v1 for each
// secret in the order given.
func Sign(at time.Time, body []byte, secrets ...string) string {
	header := make([]byte, 0, len("t=")+20+len(secrets)*(len(",v1=")+digits))
	header = append(header, "t="...)
	header = strconv.AppendInt(header, at.Unix(), 10)
	stamp := header[len("t="):]
	var sum [sha256.Size]byte
	scratch := sum[:0]
	for _, secret := range secrets {
		scratch = timed(secret, stamp, body).Sum(scratch[:0])
		header = append(header, ",v1="...)
		header = hex.AppendEncode(header, scratch)
	}
	return string(header)
}

// Sign256 is the body's signature under one secret, without a time: it proves who sent
// it, never when.
func Sign256(body []byte, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return string(hex.AppendEncode([]byte("sha256="), mac.Sum(nil)))
}

// timed has hashed everything that a v1 covers.
func timed(secret string, stamp, body []byte) hash.Hash {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(stamp)
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac
}
