package safehttp

import (
	"errors"
	"net"
	"strings"
)

// Codes of a Failure, as they are stored with a delivery.
const (
	DNS              = "dns"
	Connect          = "connect"
	TLS              = "tls"
	Timeout          = "timeout"
	BlockedAddress   = "blocked_address"
	ResponseTooLarge = "response_too_large"
)

// Failure is a Post or Fetch without a usable response. It has one fixed sentence for each code and no cause,
// because tenants read it and must not learn about our network.
type Failure struct{ Code string } //nolint:errname // the word that a delivery uses

func (f *Failure) Error() string {
	switch f.Code {
	case DNS:
		return "the host name could not be resolved"
	case TLS:
		return "no secure connection: the certificate must be valid for the host name, and TLS 1.2 or newer"
	case Timeout:
		return "no complete answer in time"
	case BlockedAddress:
		return "the URL does not lead to a public address"
	case ResponseTooLarge:
		return "the answer was too large"
	case NoLength:
		return "the answer has no Content-Length"
	case Status:
		return "the answer was not 200"
	default:
		return "the connection could not be made or broke before the answer"
	}
}

var errBlocked = &Failure{Code: BlockedAddress}

func failureOf(err error) *Failure {
	if known, ok := errors.AsType[*Failure](err); ok {
		return known
	}
	_, unknown := errors.AsType[*net.DNSError](err)
	op, _ := errors.AsType[*net.OpError](err)
	switch {
	case unknown:
		return &Failure{Code: DNS}
	case timedOut(err):
		return &Failure{Code: Timeout}
	case op != nil && op.Op == "remote error": // an alert after the handshake: the endpoint wants a client certificate
		return &Failure{Code: TLS}
	case strings.Contains(err.Error(), "response headers exceeded"): // net/http has no type for it
		return &Failure{Code: ResponseTooLarge}
	default:
		return &Failure{Code: Connect}
	}
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err) // the deadline of a context is one too
	return ok && timeout.Timeout()
}
