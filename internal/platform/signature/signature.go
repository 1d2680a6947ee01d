// Package signature signs webhook bodies and verifies signatures. A header holds the time and one
// HMAC-SHA256 for each active secret, over `<t>.<raw body>`. The HMAC key is the text of the secret
// as its owner sees it. The package stores no secrets and reads no clock.
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
	// Header is the header with the signatures of a delivery.
	Header = "X-Svc-Signature"
	// Header256 is the additional header of customer.* events: the body's signature without a time.
	Header256 = "X-Svc-Signature-256"
	// Tolerance is the largest difference between a signature's time and the receiver's time.
	Tolerance = 300 * time.Second
	// SecretLength is the number of characters of a secret.
	SecretLength = 43

	secretBytes = 32
	digits      = 2 * sha256.Size // of a signature in hexadecimal
)

// NewSecret returns a new signing secret: 32 random bytes in base64.
func NewSecret() string {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// Sign returns the header of one attempt: its time in whole seconds, then one v1 for each secret,
// in the order given.
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

// Sign256 returns the body's signature with one secret, without a time. It proves the sender, but
// not when the body was sent.
func Sign256(body []byte, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return string(hex.AppendEncode([]byte("sha256="), mac.Sum(nil)))
}

// timed returns the HMAC of `<stamp>.<body>`, which a v1 covers.
func timed(secret string, stamp, body []byte) hash.Hash {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(stamp)
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac
}
