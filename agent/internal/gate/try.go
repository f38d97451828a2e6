package gate

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// try is one connect under way.
type try struct {
	fd      int
	decided bool
	finding Finding
}

func (t *try) decide(o Outcome, seen string) {
	t.decided = true
	t.finding.Outcome, t.finding.Detail = o, fmt.Sprintf("%v: %s", t.finding.Canary, seen)
}

func (t *try) close() {
	if t.fd >= 0 {
		_ = unix.Close(t.fd)
	}
}

// begin starts a connect and decides it where the answer is there at once.
func begin(canary netip.AddrPort) *try {
	t := &try{fd: -1, finding: Finding{Canary: canary}}
	family, address, err := sockaddr(canary)
	if err != nil {
		t.decide(Unknown, err.Error())
		return t
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.decideError("opening a socket", err, netip.Addr{})
		return t
	}
	t.fd = fd
	// Without the error queue every refusal counts as the canary's own, which
	// is the strict reading, so a failure here is not one.
	_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVERR, 1)
	if family == unix.AF_INET6 {
		_ = unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVERR, 1)
	}
	switch err := unix.Connect(fd, address); {
	case err == nil:
		t.decide(Open, "accepted a connection")
	case err != unix.EINPROGRESS && err != unix.EINTR:
		t.decideError("connect", err, offender(fd))
	}
	return t
}

// finish reads the outcome of a connect that is no longer in progress. The
// error is read before the queue, because reading the queue clears it.
func (t *try) finish() {
	code, err := unix.GetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	_, unconnected := unix.Getpeername(t.fd)
	by := offender(t.fd)
	switch {
	case err != nil:
		t.decide(Unknown, fmt.Sprintf("reading the outcome: %v", err))
	case code != 0:
		t.decideError("connect", unix.Errno(code), by)
	case unconnected == nil:
		t.decide(Open, "accepted a connection")
	case by.IsValid():
		// The kernel queues the message a moment before it sets the error.
		t.decideError("connect", unix.EHOSTUNREACH, by)
	default:
		t.decide(Unknown, "neither a connection nor an error")
	}
}

// decideError reads a failed connect. by is the host whose ICMP message
// failed it, if one did.
func (t *try) decideError(what string, err error, by netip.Addr) {
	seen := fmt.Sprintf("%s: %v", what, err)
	switch {
	case by.IsValid() && by == t.finding.Canary.Addr().Unmap().WithZone(""):
		t.decide(Refused, seen+", by an ICMP message of its own host")
	case by.IsValid():
		t.decide(Rejected, fmt.Sprintf("%s, by an ICMP message of %v", seen, by))
	case isOneOf(err, unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE):
		t.decide(Refused, seen)
	case isOneOf(err, nothingSent...):
		t.decide(Blocked, seen)
	default:
		t.decide(Unknown, seen)
	}
}

// nothingSent are the errors of a connect whose packets can't have arrived:
// no route, a route or a rule that forbids, no address, no such family, an
// interface that is down, a neighbour that isn't there. EINVAL is the answer of a blackhole route.
var nothingSent = []unix.Errno{
	unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EHOSTDOWN, unix.ENONET, unix.EACCES, unix.EPERM, unix.ENETDOWN,
	unix.EADDRNOTAVAIL, unix.EAFNOSUPPORT, unix.EINVAL, unix.ETIMEDOUT,
}

func isOneOf(err error, codes ...unix.Errno) bool {
	for _, c := range codes {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

func sockaddr(canary netip.AddrPort) (int, unix.Sockaddr, error) {
	addr := canary.Addr().Unmap()
	switch {
	case !addr.IsValid() || canary.Port() == 0:
		return 0, nil, errors.New("not an address and a port")
	case addr.Zone() != "":
		return 0, nil, errors.New("an address with a zone can't be a canary")
	case addr.Is4():
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(canary.Port()), Addr: addr.As4()}, nil
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(canary.Port()), Addr: addr.As16()}, nil
}
