package gate

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Outcome is what came of one connect to a canary.
type Outcome string

// The outcomes. Only Blocked and Rejected mean that the wall held.
const (
	// Blocked: no packet got out, or none was answered in time.
	Blocked Outcome = "blocked"
	// Rejected: another host than the canary refused the packet on its way.
	Rejected Outcome = "rejected-by-other"
	// Open: the canary accepted the connection.
	Open Outcome = "open"
	// Refused: the canary itself refused, so a packet reached it.
	Refused Outcome = "refused-by-canary"
	// Unknown: the connect could not be tried or not be waited for, which says
	// nothing about the wall.
	Unknown Outcome = "unknown"
)

// Finding is what one canary showed.
type Finding struct {
	Canary  netip.AddrPort
	Outcome Outcome
	// Detail is what was seen, in one line that names the canary.
	Detail string
}

// Held reports whether the finding shows that the wall stands.
func (f Finding) Held() bool { return f.Outcome == Blocked || f.Outcome == Rejected }

// Check connects to every canary at once and waits up to silence for each. It
// returns one finding per canary, in their order. A canary that a cancelled
// ctx left undecided is Unknown, never Blocked: no answer was waited for.
func Check(ctx context.Context, canaries []netip.AddrPort, silence time.Duration) []Finding {
	deadline := time.Now().Add(silence)
	tries := make([]*try, len(canaries))
	for i, c := range canaries {
		tries[i] = begin(c)
	}
	err := wait(ctx, tries, deadline)
	findings := make([]Finding, len(canaries))
	for i, t := range tries {
		switch {
		case t.decided:
		case err != nil:
			t.decide(Unknown, fmt.Sprintf("not waited for: %v", err))
		default:
			t.decide(Blocked, fmt.Sprintf("no answer within %v", silence))
		}
		findings[i] = t.finding
		t.close()
	}
	return findings
}

// wait looks after all undecided tries at once until every one is decided, the
// deadline has passed (nil) or ctx is done.
func wait(ctx context.Context, tries []*try, deadline time.Time) error {
	woken, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("making an eventfd: %w", err)
	}
	defer func() { _ = unix.Close(woken) }()
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		_, _ = unix.Write(woken, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !stop() {
			<-stopped // woken must stay open until the write is done
		}
	}()
	for {
		fds := []unix.PollFd{{Fd: int32(woken), Events: unix.POLLIN}}
		var waiting []*try
		for _, t := range tries {
			if !t.decided {
				fds = append(fds, unix.PollFd{Fd: int32(t.fd), Events: unix.POLLOUT})
				waiting = append(waiting, t)
			}
		}
		// A deadline less than a millisecond away is rounded up, so that silence is
		// never cut short.
		left := time.Until(deadline).Milliseconds() + 1
		if len(waiting) == 0 || left <= 0 {
			return nil
		}
		if _, err := unix.Poll(fds, int(left)); err != nil && err != unix.EINTR {
			return fmt.Errorf("waiting for answers: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for i, t := range waiting {
			if fds[i+1].Revents != 0 {
				t.finish()
			}
		}
	}
}
