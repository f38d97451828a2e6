package gate

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Origins in struct sock_extended_err.
const (
	originICMP  = 2
	originICMP6 = 3
)

// sizeofExtendedErr is the size of struct sock_extended_err in bytes; the
// address of the offender follows it.
const sizeofExtendedErr = 16

// offender returns the host whose ICMP message is in the socket's error
// queue. It is invalid when there is none: an RST leaves nothing there.
func offender(fd int) netip.Addr {
	control := make([]byte, 512)
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 512), control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return netip.Addr{}
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return netip.Addr{}
	}
	for _, m := range messages {
		ip4 := m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR
		ip6 := m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if ip4 || ip6 {
			if by := parseOffender(m.Data); by.IsValid() {
				return by
			}
		}
	}
	return netip.Addr{}
}

// parseOffender reads a struct sock_extended_err and the socket address behind it.
func parseOffender(b []byte) netip.Addr {
	const inet4, inet6 = sizeofExtendedErr + 8, sizeofExtendedErr + 24
	if len(b) < inet4 || b[4] != originICMP && b[4] != originICMP6 {
		return netip.Addr{}
	}
	switch family := binary.NativeEndian.Uint16(b[sizeofExtendedErr:]); {
	case family == unix.AF_INET:
		return netip.AddrFrom4([4]byte(b[sizeofExtendedErr+4:]))
	case family == unix.AF_INET6 && len(b) >= inet6:
		return netip.AddrFrom16([16]byte(b[sizeofExtendedErr+8:])).Unmap()
	}
	return netip.Addr{}
}
