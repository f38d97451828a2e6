package main

import (
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{
		"connect-tcp":      connectTCP,
		"send-udp":         sendUDP,
		"dns":              dns,
		"icmp":             icmp,
		"packet":           rawSocket("packet", unix.AF_PACKET, unix.SOCK_RAW),
		"vsock":            rawSocket("vsock", 40, unix.SOCK_STREAM),
		"alg":              rawSocket("alg", 38, unix.SOCK_SEQPACKET),
		"raw-inet":         rawInet,
		"unix-path":        unixPath,
		"interfaces":       interfaces,
		"netlink-use":      netlinkUse,
		"listen":           listen,
		"odd-families":     oddFamilies,
		"socket-high-bits": socketHighBits,
		"sysv-ipc":         sysvIPC,
	})
}

const patience = 1500 * time.Millisecond

// connectTCP connects to each address it was told of; the first two octets of
// a greeting prove who answered.
func connectTCP(r *attempt.Report, args []string) {
	for _, address := range args {
		name := dialled(address, patience)
		r.Calls = append(r.Calls, attempt.Call{Name: "connect " + address, Errno: name})
		switch {
		case name == "":
			r.Achieved, r.Detail = true, "connected to "+address
		case name == "ECONNREFUSED":
			// A host's own refusal is a packet that arrived.
			r.Achieved, r.Detail = true, "a packet arrived at "+address
		case r.Errno == "":
			r.Errno = name
		}
	}
}

// netErrno is errnoName, with a name of its own for silence.
func netErrno(err error) string {
	if timeout, ok := err.(interface{ Timeout() bool }); ok && timeout.Timeout() {
		return "ETIMEDOUT"
	}
	return errnoName(err)
}

// sendUDP sends a datagram and waits for the echo that the suite's listener
// would send.
func sendUDP(r *attempt.Report, args []string) {
	for _, address := range args {
		got(r, "an echo from "+address, exchangeUDP(address, []byte("hostile")))
	}
}

func exchangeUDP(address string, message []byte) error {
	conn, err := net.DialTimeout("udp", address, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience / 3))
	if _, err := conn.Write(message); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 512))
	return err
}

// dns asks the resolvers of /etc/resolv.conf and those that it was told of.
func dns(r *attempt.Report, args []string) {
	// A query for the root's name servers, which any resolver answers.
	query := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1}
	servers := args
	if b, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "nameserver" {
				servers = append(servers, net.JoinHostPort(f[1], "53"))
			}
		}
	}
	for _, server := range servers {
		got(r, "an answer from "+server, exchangeUDP(server, query))
	}
}

// icmp pings its target through a raw socket and through an unprivileged one.
func icmp(r *attempt.Report, args []string) {
	ip := net.ParseIP(args[0]).To4()
	if ip == nil {
		r.Errno = "usage"
		return
	}
	for name, kind := range map[string]int{"raw": unix.SOCK_RAW, "datagram": unix.SOCK_DGRAM} {
		got(r, "ping with a "+name+" socket", ping(ip, kind))
	}
}

func ping(ip net.IP, kind int) error {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	to := &unix.SockaddrInet4{Addr: [4]byte(ip)}
	echo := []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}
	if err := unix.Sendto(fd, echo, 0, to); err != nil {
		return err
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000})
	_, _, err = unix.Recvfrom(fd, make([]byte, 256), 0)
	return err
}

func rawSocket(name string, family, kind int) verb {
	return func(r *attempt.Report, _ []string) {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		got(r, name+" socket", err)
	}
}

// rawInet opens a socket that writes its own IP headers.
func rawInet(r *attempt.Report, _ []string) {
	for name, family := range map[string]int{"inet": unix.AF_INET, "inet6": unix.AF_INET6} {
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err == nil {
			_ = unix.Close(fd)
		}
		got(r, "raw "+name+" socket", err)
	}
}

// unixPath connects to a socket file of the host that it was told of.
func unixPath(r *attempt.Report, args []string) {
	for _, name := range args {
		conn, err := net.DialTimeout("unix", name, patience)
		if err == nil {
			_ = conn.Close()
		}
		got(r, "connect to "+name, err)
	}
}

// interfaces lists the network's interfaces and addresses over netlink, as
// every resolver does. It achieves its end where there is one beside lo.
func interfaces(r *attempt.Report, _ []string) {
	r.Values = map[string][]string{}
	list, err := net.Interfaces()
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	for _, i := range list {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			r.Values[i.Name] = append(r.Values[i.Name], a.String())
		}
		if i.Flags&net.FlagLoopback == 0 && len(addresses) > 0 {
			r.Achieved, r.Detail = true, "has the interface "+i.Name
		}
	}
}

// netlinkUse asks netlink for what changes a network: a new interface.
func netlinkUse(r *attempt.Report, _ []string) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		got(r, "netlink socket", err)
		return
	}
	defer func() { _ = unix.Close(fd) }()
	// RTM_NEWLINK with NLM_F_REQUEST|NLM_F_ACK and index 2^30: it names no
	// interface, so that nothing changes; the wall answers before that is seen.
	message := make([]byte, 32)
	put(message[0:], 32)
	message[4], message[6] = unix.RTM_NEWLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK
	put(message[20:], 1<<30)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		got(r, "netlink send", err)
		return
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < 20 {
		got(r, "netlink answer", err)
		return
	}
	permitted(r, "RTM_NEWLINK", unix.Errno(uint32(-int32(get(answer[16:])))))
}

// listen opens a listening socket on every address and asks whether anybody
// outside could reach it: that takes an address beside loopback.
func listen(r *attempt.Report, _ []string) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	defer func() { _ = l.Close() }()
	var inner attempt.Report
	interfaces(&inner, nil)
	r.Achieved, r.Detail = inner.Achieved, inner.Detail
}

// oddFamilies opens a socket of every family there is.
func oddFamilies(r *attempt.Report, _ []string) {
	ordinary := map[int]bool{unix.AF_UNIX: true, unix.AF_INET: true, unix.AF_INET6: true, unix.AF_NETLINK: true}
	r.Values = map[string][]string{}
	for family := 1; family < 48; family++ {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				continue
			}
			_ = unix.Close(fd)
			r.Values["families"] = append(r.Values["families"], familyName(family))
			if !ordinary[family] {
				r.Achieved, r.Detail = true, "opened a socket of the family "+familyName(family)
			}
			break
		}
	}
}

func familyName(family int) string {
	names := map[int]string{1: "unix", 2: "inet", 10: "inet6", 15: "key", 16: "netlink", 17: "packet", 31: "bluetooth", 38: "alg", 40: "vsock", 44: "xdp"}
	if name := names[family]; name != "" {
		return name
	}
	return "family-" + itoa(family)
}

// socketHighBits asks for AF_ALG with bits that the kernel does not read.
func socketHighBits(r *attempt.Report, _ []string) {
	fd, _, errno := unix.Syscall(unix.SYS_SOCKET, 38|1<<32, unix.SOCK_SEQPACKET, 0)
	if errno == 0 {
		_ = unix.Close(int(fd))
		got(r, "alg socket with high bits", nil)
		return
	}
	got(r, "alg socket with high bits", errno)
}

// sysvIPC attaches to a shared memory segment of the host that it was told of.
func sysvIPC(r *attempt.Report, args []string) {
	id, err := unix.SysvShmGet(atoi(args[0]), 0, 0)
	if err != nil {
		got(r, "find the host's shared memory", err)
		return
	}
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err == nil {
		_ = unix.SysvShmDetach(b)
	}
	got(r, "attach to the host's shared memory", err)
}
