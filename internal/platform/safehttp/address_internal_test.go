package safehttp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPublic_BothSidesOfEachRange_Decided(t *testing.T) {
	t.Parallel()
	for _, text := range forbidden {
		require.False(t, guard{}.permits(netip.MustParseAddr(text)), text)
	}
	for _, text := range permitted {
		require.True(t, guard{}.permits(netip.MustParseAddr(text)), text)
		require.False(t, guard{allowOnly: true}.permits(netip.MustParseAddr(text)), text)
	}
	require.False(t, guard{}.permits(netip.Addr{}))
	require.False(t, guard{}.permits(netip.MustParseAddr("2606:4700::1111%eth0")))
}

func TestPermits_AllowedNetworks_Permitted(t *testing.T) {
	t.Parallel()
	g := guard{allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32"), netip.MustParsePrefix("::1/128")}}
	for text, want := range map[string]bool{
		"10.1.0.0": true, "10.1.255.255": true, "10.2.0.0": false, "10.0.255.255": false, "fd00:1::5": true, "fd00:2::5": false, "::1": true,
		"::ffff:10.1.0.1": false, "::10.1.0.1": false, "64:ff9b::10.1.0.1": false, "fd00:1::5%eth0": false, "8.8.8.8": true, "127.0.0.1": false,
	} {
		require.Equal(t, want, g.permits(netip.MustParseAddr(text)), text)
	}
	g.allowOnly = true
	require.True(t, g.permits(netip.MustParseAddr("10.1.2.3")))
	require.False(t, g.permits(netip.MustParseAddr("8.8.8.8")))
}

func TestControl_UnreadableAddress_Refused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "8.8.8.8", ":443", "hooks.example.com:443", "[fe80::1%lo]:443", "[::ffff:8.8.8.8]:443", "10.0.0.1:443"} {
		require.ErrorIs(t, guard{}.control("tcp", address, nil), errBlocked, address)
	}
	require.NoError(t, guard{}.control("tcp4", "8.8.8.8:443", nil))
}

// registry is IANA's list of ranges that are not globally reachable, written a second time for
// the fuzz test: as octets and bits, and not merged into larger ranges.
var registry = []struct {
	start string
	bits  int
}{
	{"0.0.0.0", 8},
	{"10.0.0.0", 8},
	{"100.64.0.0", 10},
	{"127.0.0.0", 8},
	{"168.63.129.16", 32},
	{"169.254.0.0", 16},
	{"172.16.0.0", 12},
	{"192.0.0.0", 24},
	{"192.0.2.0", 24},
	{"192.31.196.0", 24},
	{"192.52.193.0", 24},
	{"192.88.99.0", 24},
	{"192.168.0.0", 16},
	{"192.175.48.0", 24},
	{"198.18.0.0", 15},
	{"198.51.100.0", 24},
	{"203.0.113.0", 24},
	{"224.0.0.0", 4},
	{"240.0.0.0", 4},
	{"::", 3},
	{"::", 96},
	{"::ffff:0:0:0", 96},
	{"64:ff9b::", 96},
	{"64:ff9b:1::", 48},
	{"100::", 64},
	{"2001::", 23},
	{"2001::", 32},
	{"2001:2::", 48},
	{"2001:db8::", 32},
	{"2001:10::", 28},
	{"2001:20::", 28},
	{"2002::", 16},
	{"2620:4f:8000::", 48},
	{"3fff::", 20},
	{"5f00::", 16},
	{"4000::", 2},
	{"8000::", 1},
	{"fc00::", 7},
	{"fe80::", 10},
	{"fec0::", 10},
	{"ff00::", 8},
}

func registered(addr netip.Addr) bool {
	for _, entry := range registry {
		start := netip.MustParseAddr(entry.start)
		if start.Is4() != addr.Is4() {
			continue
		}
		a, b := start.AsSlice(), addr.AsSlice()
		same := true
		for bit := range entry.bits {
			mask := byte(0x80) >> (bit % 8)
			same = same && a[bit/8]&mask == b[bit/8]&mask
		}
		if same {
			return true
		}
	}
	return false
}

func FuzzPublic(f *testing.F) {
	for _, list := range [][]string{forbidden, permitted} {
		for _, text := range list {
			addr := netip.MustParseAddr(text).As16()
			f.Add(binary.BigEndian.Uint64(addr[:8]), binary.BigEndian.Uint64(addr[8:]))
		}
	}
	f.Fuzz(func(t *testing.T, high, low uint64) {
		var octets [16]byte
		binary.BigEndian.PutUint64(octets[:8], high)
		binary.BigEndian.PutUint64(octets[8:], low)
		for _, addr := range []netip.Addr{netip.AddrFrom16(octets), netip.AddrFrom4([4]byte(octets[12:]))} {
			got := guard{}.permits(addr)
			require.Equal(t, !registered(addr) && !addr.Is4In6() && !own(addr), got, addr)
			ip := net.IP(addr.AsSlice())
			if ip.IsPrivate() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || !ip.IsGlobalUnicast() {
				require.False(t, got, addr)
			}
			require.Equal(t, got, guard{}.control("tcp", netip.AddrPortFrom(addr, 443).String(), nil) == nil, addr)
			everything := guard{allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
			require.Equal(t, !addr.Is4In6(), everything.permits(addr), addr)
		}
	})
}
