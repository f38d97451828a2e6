package main

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rejected is the name of a refusal that an ICMP message brought. A closed port
// of a host that was reached answers TCP with a reset; ICMP is a firewall's
// answer, on the way or right before the host, to a packet that it took out.
// connect(2) calls both ECONNREFUSED.
const rejected = "REJECTED"

// dialled connects and says how that failed; nothing if it did not.
func dialled(address string, wait time.Duration) string {
	// A second descriptor of the socket, to ask about it after Dial has closed
	// its own.
	socket := -1
	d := net.Dialer{Timeout: wait, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_RECVERR, 1)
			_ = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVERR, 1)
			socket, _ = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		})
	}}
	conn, err := d.Dial("tcp", address)
	if socket >= 0 {
		defer func() { _ = unix.Close(socket) }()
	}
	if err == nil {
		_ = conn.Close()
		return ""
	}
	name := netErrno(err)
	if name == "ECONNREFUSED" && byICMP(socket) {
		return rejected
	}
	return name
}

// byICMP says whether an ICMP message is in a socket's error queue.
func byICMP(socket int) bool {
	control := make([]byte, 512)
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 512), control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return false
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return false
	}
	for _, m := range messages {
		ip4 := m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR
		ip6 := m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		// struct sock_extended_err: the origin is its fifth byte.
		if (ip4 || ip6) && len(m.Data) > 4 && (m.Data[4] == unix.SO_EE_ORIGIN_ICMP || m.Data[4] == unix.SO_EE_ORIGIN_ICMP6) {
			return true
		}
	}
	return false
}
