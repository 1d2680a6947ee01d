package signature_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"testing"

	"github.com/parley-chat/parley/internal/platform/signature"
)

// typical has 1.5 kB, as a received message with its enrichment.
var typical = bytes.Repeat([]byte("0123456789abcde\n"), 96)

func BenchmarkSign(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		signature.Sign(signedAt, typical, older)
	}
}

func BenchmarkSign_TwoSecrets(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		signature.Sign(signedAt, typical, older, newer)
	}
}

// BenchmarkSign_Bare is the engine alone.
func BenchmarkSign_Bare(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mac := hmac.New(sha256.New, []byte(older))
		mac.Write(typical)
		mac.Sum(nil)
	}
}

func BenchmarkVerify(b *testing.B) {
	header, secrets := signature.Sign(signedAt, typical, older, newer), []string{newer}
	b.ReportAllocs()
	for b.Loop() {
		if err := signature.Verify(header, typical, secrets, signedAt, signature.Tolerance); err != nil {
			b.Fatal(err)
		}
	}
}
