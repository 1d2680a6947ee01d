package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// sink is an HTTPS endpoint that takes every POST.
type sink struct {
	url, caFile string
	roots       *x509.CertPool
	watched     atomic.Pointer[watch]
}

// watch counts the POSTs since it began.
type watch struct {
	counter

	// seen, unless nil, is told each body and when it had arrived.
	seen func(body []byte, at time.Time)
}

func openSink(ctx context.Context, b *bench) *sink {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	file := must(os.CreateTemp("", "parley-bench-*.pem"))
	b.later(func() { _ = os.Remove(file.Name()) })
	must(file.Write(encoded))
	check(file.Close())
	listener := must((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
	s := &sink{url: "https://" + listener.Addr().String(), caFile: file.Name(), roots: x509.NewCertPool()}
	s.roots.AppendCertsFromPEM(encoded)
	s.watch(nil)
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	b.later(func() { _ = server.Close() })
	return s
}

// ServeHTTP has the whole POST when it counts it.
func (s *sink) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	at, watched := time.Now(), s.watched.Load()
	watched.add()
	if watched.seen != nil {
		watched.seen(body, at)
	}
	w.WriteHeader(http.StatusOK)
}

// watch counts anew.
func (s *sink) watch(seen func(body []byte, at time.Time)) *watch {
	watched := &watch{seen: seen}
	s.watched.Store(watched)
	return watched
}
