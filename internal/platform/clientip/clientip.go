// Package clientip finds the address of the caller of a request.
package clientip

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Bucket is the key under which guesses of an address are counted: the IPv4 address, or the IPv6 network that an internet
// provider gives to one customer.
func Bucket(ip netip.Addr) string {
	if ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}

// Of is the address of the peer. Behind trusted proxies it is the address that the outermost of
// them saw. Entries of X-Forwarded-For before that one are ignored, because a caller can forge them.
func Of(r *http.Request, trusted []netip.Prefix) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	peer, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	peer = peer.Unmap().WithZone("")
	if len(trusted) == 0 {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(peer) }) {
			return peer
		}
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			return peer
		}
		peer = next.Unmap().WithZone("")
	}
	return peer
}
