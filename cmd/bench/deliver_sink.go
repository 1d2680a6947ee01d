package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// sink is an HTTPS endpoint that takes everything and remembers when.
type sink struct {
	url, caFile string
	pool        *x509.CertPool
	server      *http.Server
	count       atomic.Int64
	first, last atomic.Int64

	mu   sync.Mutex
	seen func(body []byte, at time.Time)
}

func openSink(ctx context.Context) (*sink, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	file, err := os.CreateTemp("", "parley-bench-*.pem")
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(encoded); err != nil {
		return nil, err
	}
	s := &sink{caFile: file.Name(), pool: x509.NewCertPool()}
	s.pool.AppendCertsFromPEM(encoded)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s.url = "https://" + listener.Addr().String()
	s.server = &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
	}
	go func() {
		if err := s.server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}()
	return s, file.Close()
}

// ServeHTTP has the whole POST when it counts it.
func (s *sink) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	at := time.Now()
	if s.count.Add(1) == 1 {
		s.first.Store(at.UnixNano())
	}
	s.last.Store(at.UnixNano())
	s.mu.Lock()
	seen := s.seen
	s.mu.Unlock()
	if seen != nil {
		seen(body, at)
	}
	w.WriteHeader(http.StatusOK)
}

// watch has each body reported from now on.
func (s *sink) watch(seen func(body []byte, at time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = seen
	s.count.Store(0)
}

var errMissing = errors.New("not everything arrived in time")

// await waits until so many have arrived since watch.
func (s *sink) await(ctx context.Context, count int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for s.count.Load() < int64(count) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d", errMissing, s.count.Load(), count)
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// pace is how many arrived a second, from the first to the last: how long something took
// to start is not what is compared.
func (s *sink) pace() pace {
	return pace(float64(s.count.Load()-1) / time.Duration(s.last.Load()-s.first.Load()).Seconds())
}

func (s *sink) close() {
	_ = s.server.Close()
	_ = os.Remove(s.caFile)
}
