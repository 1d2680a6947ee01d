package safehttp

import (
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// guard decides which addresses may be connected to.
type guard struct {
	allow     []netip.Prefix
	allowOnly bool // only allowed networks may be reached, not public addresses
}

func (g guard) control(_, address string, _ syscall.RawConn) error {
	dialled, err := netip.ParseAddrPort(address)
	if err != nil || !g.permits(dialled.Addr()) {
		return errBlocked
	}
	return nil
}

func (g guard) permits(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Is4In6() {
		return false
	}
	if contains(g.allow, addr) {
		return true
	}
	return !g.allowOnly && public(addr) && !own(addr)
}

// contains reports whether a network contains the address. It is false for an address with a zone.
func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// public reports whether the address is globally reachable.
func public(addr netip.Addr) bool {
	return (addr.Is4() || contains(globalUnicast, addr)) && !contains(special, addr)
}

// globalUnicast is the part of IPv6 that IANA has allocated. Outside of it are loopback, IPv4 in
// its compatible and mapped forms, NAT64, discard, SRv6, unique local, link-local, site-local and
// multicast addresses.
var globalUnicast = []netip.Prefix{netip.MustParsePrefix("2000::/3")}

// special are the ranges in IANA's special-purpose registries, and service addresses of clouds.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),         // this network
	netip.MustParsePrefix("10.0.0.0/8"),        // private
	netip.MustParsePrefix("100.64.0.0/10"),     // shared by a carrier's customers
	netip.MustParsePrefix("127.0.0.0/8"),       // loopback
	netip.MustParsePrefix("168.63.129.16/32"),  // Azure's own services, seen from its machines
	netip.MustParsePrefix("169.254.0.0/16"),    // link-local, metadata of most clouds
	netip.MustParsePrefix("172.16.0.0/12"),     // private
	netip.MustParsePrefix("192.0.0.0/24"),      // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),      // documentation
	netip.MustParsePrefix("192.31.196.0/24"),   // AS112
	netip.MustParsePrefix("192.52.193.0/24"),   // AMT
	netip.MustParsePrefix("192.88.99.0/24"),    // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),    // private
	netip.MustParsePrefix("192.175.48.0/24"),   // AS112
	netip.MustParsePrefix("198.18.0.0/15"),     // benchmarking
	netip.MustParsePrefix("198.51.100.0/24"),   // documentation
	netip.MustParsePrefix("203.0.113.0/24"),    // documentation
	netip.MustParsePrefix("224.0.0.0/4"),       // multicast
	netip.MustParsePrefix("240.0.0.0/4"),       // reserved, broadcast
	netip.MustParsePrefix("2001::/23"),         // protocol assignments: Teredo, benchmarking, ORCHID
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // 6to4, which carries any IPv4 address
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),         // documentation
}

// own reports whether the address is one of this machine, where services may listen that are not
// for the public. It reads the interfaces each time, because addresses change, and because the
// handshake that follows costs far more.
func own(addr netip.Addr) bool {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(interfaces, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(addr.AsSlice())
	})
}
