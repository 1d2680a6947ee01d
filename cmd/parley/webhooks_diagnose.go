package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/signature"
)

// The steps that a receiver can fail at.
const (
	stepMalformed = "malformed header"
	stepSkew      = "clock skew"
	stepRevoked   = "revoked secret"
	stepAltered   = "altered body"
	stepSecret    = "wrong secret"
)

// suspect is a delivery to verify, with the secrets and the original body, as far as given.
type suspect struct {
	header           string
	body, original   []byte
	hasOriginal      bool
	secrets, revoked []string
	at               time.Time
	tolerance        time.Duration
}

// finding is a step that failed: what is wrong, and what the integrator can do.
type finding struct {
	step, says string
	advice     []string
}

func (f *finding) advise(lines ...string) { f.advice = append(f.advice, lines...) }

// diagnose returns a finding for every step that fails. Without findings the delivery is genuine.
func diagnose(s suspect) []finding {
	signed, err := signature.Parse(s.header)
	if err != nil {
		return []finding{malformedHeader(s.header, err)}
	}
	var findings []finding
	matches := s.matching(signed, s.body, s.secrets) > 0
	if err := signed.Fresh(s.at, s.tolerance); err != nil {
		findings = append(findings, skewed(s, signed, err, matches))
	}
	if !matches {
		findings = append(findings, s.mismatch(signed))
	}
	return findings
}

// matching returns the position, from 1, of the first secret whose signature over the body is in
// the header, or 0.
func (suspect) matching(signed signature.Signed, body []byte, secrets []string) int {
	for i, secret := range secrets {
		if signed.Matches(body, secret) {
			return i + 1
		}
	}
	return 0
}

func malformedHeader(header string, err error) finding {
	found := finding{step: stepMalformed, says: strings.TrimPrefix(err.Error(), stepMalformed+": ")}
	failed, _ := errors.AsType[*signature.Error](err)
	switch {
	case header == "":
		found.advise("Pass the value of " + signature.Header + ". If your server did not get it, a proxy removed it.")
	case strings.HasPrefix(header, "sha256="):
		found.advise("This looks like " + signature.Header256 + "; verify " + signature.Header + ", which also covers the time.")
	case failed.Part == "v1" && strings.Contains(header, "v1="):
		found.advise("A v1 is cut short or was changed. Copy the whole header; look for a proxy that limits or splits headers.")
	default:
		found.advise("It must read t=<unix seconds>,v1=<64 hexadecimal digits>, with one v1 for each secret and no spaces.")
	}
	return found
}

func skewed(s suspect, signed signature.Signed, err error, matches bool) finding {
	at, skew := s.at.UTC().Truncate(time.Second), time.Duration(0)
	if failed, ok := errors.AsType[*signature.Error](err); ok {
		skew = failed.Skew
	}
	direction := "before"
	if skew > 0 {
		direction = "after"
	}
	found := finding{step: stepSkew, says: fmt.Sprintf("t is %s, which is %s %s %s; %s is allowed",
		signed.At.Format(time.RFC3339), skew.Abs(), direction, at.Format(time.RFC3339), s.tolerance)}
	if matches {
		found.advise("The signature itself matches.")
	}
	if skew > 0 {
		found.advise("The clock of your machine is slow: synchronise it (NTP).")
		return found
	}
	found.advise(
		"If it arrived just now, the clock of your machine is fast (synchronise it by NTP) or it is an old delivery that was sent again.",
		"If it arrived earlier, say when: --at "+signed.At.Format(time.RFC3339)+" is when it was sent.")
	return found
}

// mismatch finds the reason why no secret matches. It tries the reasons that it can prove first.
func (s suspect) mismatch(signed signature.Signed) finding {
	if n := s.matching(signed, s.body, s.revoked); n > 0 {
		return finding{step: stepRevoked, says: fmt.Sprintf("it was signed with revoked secret %d of %d", n, len(s.revoked)), advice: []string{
			"If t is later than the revocation, refuse it: that secret has leaked.",
			"If t is earlier, it was sent during the rotation: keep the old secret in your receiver until the new one works, then revoke it.",
		}}
	}
	if s.hasOriginal && !bytes.Equal(s.original, s.body) {
		if s.matching(signed, s.original, s.secrets) > 0 {
			return altered(s.original, s.body)
		}
		if s.matching(signed, s.original, s.revoked) > 0 {
			found := altered(s.original, s.body)
			found.advise("The original was signed with a revoked secret.")
			return found
		}
	}
	for _, guess := range restored(s.body) {
		if s.matching(signed, guess, s.secrets) > 0 {
			return altered(guess, s.body)
		}
	}
	return s.wrongSecret(signed)
}

func (s suspect) wrongSecret(signed signature.Signed) finding {
	found := finding{step: stepSecret, says: fmt.Sprintf("none of the %d secrets matches any of the %d signatures over these %d bytes",
		len(s.secrets), len(signed.Signatures), len(s.body))}
	for i, secret := range s.secrets {
		trimmed := strings.TrimSpace(secret)
		switch {
		case trimmed == "":
			found.advise(fmt.Sprintf("Secret %d is empty: is its variable set?", i+1))
		case trimmed != secret && signed.Matches(s.body, trimmed):
			found.advise(fmt.Sprintf("Secret %d matches without the white space around it: trim it where you read it.", i+1))
			return found
		case len(secret) != signature.SecretLength:
			found.advise(fmt.Sprintf(
				"Secret %d has %d characters, ours have %d: pass it as it was shown, not decoded.", i+1, len(secret), signature.SecretLength))
		}
	}
	found.advise("Is it the secret of this subscription? Each subscription has its own, shown once when it was created.")
	switch {
	case len(s.body) == 0:
		found.advise("The body is empty: another part of your server read it first. Keep the raw bytes before any parser runs.")
	case s.hasOriginal && bytes.Equal(s.original, s.body):
		found.advise("The body equals the original: it was not altered.")
	case s.hasOriginal:
		found.advise("The original does not match either: it is not what was sent, or the secret is wrong.")
	default:
		found.advise("Or the body was altered on the way: pass the raw bytes, and with --original a body known to be good.")
	}
	return found
}
