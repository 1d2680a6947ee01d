//go:build linux

package safehttp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	insideVariable = "PARLEY_TEST_NETWORK"
	loopbackIndex  = 1
)

// inside reports whether the test runs in its own network namespace, in which every address
// belongs to this machine. If not, it runs the test again in a child process in such a namespace.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		require.NoError(t, ownEverything())
		return true
	}
	output, err := elsewhere(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET})
	if errors.Is(err, syscall.EPERM) { // not root: use a user namespace too
		output, err = elsewhere(t, &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		})
	}
	if errors.Is(err, syscall.EPERM) && os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("this machine lets only root make networks")
	}
	require.NoError(t, err, output)
	require.Contains(t, output, "--- PASS: "+t.Name())
	t.Log(output)
	return false
}

func elsewhere(t *testing.T, how *syscall.SysProcAttr) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=1m")
	command.SysProcAttr = how
	command.Env = append(os.Environ(), insideVariable+"=1", "HTTPS_PROXY=http://127.0.0.1:3128", "HTTP_PROXY=http://127.0.0.1:3128")
	output, err := command.CombinedOutput()
	return string(output), err
}

// ownEverything routes all addresses to this machine, so that one listener accepts connections to
// any address. It uses netlink because not every machine has `ip`.
func ownEverything() error {
	link := []byte{syscall.AF_UNSPEC, 0, 0, 0}
	link = binary.NativeEndian.AppendUint32(link, loopbackIndex)
	link = binary.NativeEndian.AppendUint32(link, syscall.IFF_UP)
	link = binary.NativeEndian.AppendUint32(link, syscall.IFF_UP)
	if err := netlink(syscall.RTM_NEWLINK, 0, link); err != nil {
		return err
	}
	for _, family := range []byte{syscall.AF_INET, syscall.AF_INET6} {
		route := []byte{family, 0, 0, 0, syscall.RT_TABLE_LOCAL, syscall.RTPROT_STATIC, syscall.RT_SCOPE_HOST, syscall.RTN_LOCAL, 0, 0, 0, 0}
		route = attribute(route, syscall.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopbackIndex))
		if err := netlink(syscall.RTM_NEWROUTE, syscall.NLM_F_CREATE, route); err != nil {
			return err
		}
	}
	return nil
}

// ownAddress adds an address to the machine.
func ownAddress(addr netip.Addr) error {
	message := []byte{syscall.AF_INET, 32, 0, syscall.RT_SCOPE_UNIVERSE}
	message = binary.NativeEndian.AppendUint32(message, loopbackIndex)
	message = attribute(message, syscall.IFA_LOCAL, addr.AsSlice())
	return netlink(syscall.RTM_NEWADDR, syscall.NLM_F_CREATE, message)
}

func attribute(message []byte, kind uint16, value []byte) []byte {
	message = binary.NativeEndian.AppendUint16(message, uint16(4+len(value)))
	message = binary.NativeEndian.AppendUint16(message, kind)
	return append(message, value...)
}

func netlink(kind, flags uint16, body []byte) error {
	socket, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	message := binary.NativeEndian.AppendUint32(nil, uint32(syscall.NLMSG_HDRLEN+len(body)))
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = binary.NativeEndian.AppendUint16(message, syscall.NLM_F_REQUEST|syscall.NLM_F_ACK|flags)
	message = append(message, make([]byte, 8)...)
	if err := syscall.Sendto(socket, append(message, body...), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 4096)
	if _, _, err := syscall.Recvfrom(socket, reply, 0); err != nil {
		return err
	}
	if code := int32(binary.NativeEndian.Uint32(reply[syscall.NLMSG_HDRLEN:])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}
