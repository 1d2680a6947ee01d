package receiver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// root is the CA of all receivers of the process.
var root = sync.OnceValue(func() *certified {
	from, until := validity()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Parley test receiver CA"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &certified{template: template, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
})

type certified struct {
	template *x509.Certificate
	key      *ecdsa.PrivateKey
	pem      []byte
}

// validity is wide enough for tests that move their clocks by years.
func validity() (from, until time.Time) {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
}

// CAFile returns a PEM file with the CA of all receivers of this process.
func CAFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, root().pem, 0o600))
	return file
}

// authority makes the certificate of one receiver.
func authority(t testing.TB, hosts []string) (server *tls.Config, pool *x509.CertPool, file string) {
	t.Helper()
	from, until := validity()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Parley test receiver"}, NotBefore: from, NotAfter: until,
		DNSNames: append([]string{"localhost"}, hosts...), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafKey := key(t)
	leafDER := issue(t, leaf, root().template, leafKey, root().key)
	pool = x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(root().pem))
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}},
	}, pool, CAFile(t)
}

func key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return made
}

func issue(t testing.TB, certificate, issuer *x509.Certificate, subject, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, certificate, issuer, &subject.PublicKey, signer)
	require.NoError(t, err)
	return der
}
