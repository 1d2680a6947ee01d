package cloud

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

const (
	signatureHeader = "X-Hub-Signature-256"
	signaturePrefix = "sha256="
	maxChallenge    = 1024
)

// Challenge answers the network's question for the callback address.
func (c *Client) Challenge(query url.Values) (answer string, ours bool) {
	given, wanted := query.Get("hub.verify_token"), c.config.VerifyToken.Reveal()
	answer = query.Get("hub.challenge")
	right := subtle.ConstantTimeCompare([]byte(given), []byte(wanted)) == 1 && wanted != ""
	if !right || query.Get("hub.mode") != "subscribe" || answer == "" || len(answer) > maxChallenge {
		return "", false
	}
	return answer, true
}

// Errors of a callback's signature.
var (
	errNoSecret  = errors.New("no app secret is configured: set PARLEY_PROVIDER_APP_SECRET")
	errUnsigned  = errors.New("the callback carries no signature, or several")
	errMalformed = errors.New("the callback's signature is not sha256= and 64 lower-case hex digits")
	errForged    = errors.New("the callback's signature matches none of the app secrets")
)

// Verify tries every secret, so that its time does not tell which one matched.
func (c *Client) Verify(header http.Header, body ...[]byte) (secret int, err error) {
	if len(c.config.AppSecrets) == 0 {
		return 0, errNoSecret
	}
	given := header.Values(signatureHeader)
	if len(given) != 1 {
		return 0, errUnsigned
	}
	digits, found := strings.CutPrefix(given[0], signaturePrefix)
	if !found || len(digits) != hex.EncodedLen(sha256.Size) || strings.ToLower(digits) != digits {
		return 0, errMalformed
	}
	claimed, err := hex.DecodeString(digits)
	if err != nil {
		return 0, errMalformed
	}
	fits := -1
	for i, known := range c.config.AppSecrets {
		mac := hmac.New(sha256.New, []byte(known.Reveal()))
		for _, piece := range body {
			mac.Write(piece)
		}
		if hmac.Equal(claimed, mac.Sum(nil)) && fits < 0 {
			fits = i
		}
	}
	if fits < 0 {
		return 0, errForged
	}
	return fits, nil
}
