package conformance

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

// scopedSince is the first version of Landlock with scopes (Linux 6.12).
const scopedSince = 6

// scopeWalls keep a run with network to itself. The agent's Landlock domain is
// such a wall under every runtime, and so is a network namespace of the run's
// own.
func scopeWalls() []wall {
	return []wall{{
		id: "W82", title: "a network brings no abstract sockets along", verb: "unix-abstract", network: true, args: abstractSocket, judge: outOfReach,
		why: "Abstract sockets go by the network namespace alone: who shares it for the network's sake shares every one of the host's, unless something scopes them.",
	}}
}

// scopedRuns is the same between two runs.
func scopedRuns() []Spec {
	return []Spec{{
		ID: "W83", Group: Walled, Title: "two runs with network do not meet at an abstract socket", Needs: []Capability{Walls, Network}, check: meeting,
		Why: "Over a socket goes a descriptor, and with a directory's the one run has the other's work directory.",
	}}
}

// outOfReach is nobodyCame, where the kernel that the scanner runs on lets an
// agent see to it.
func outOfReach(t *T, r attempt.Report) {
	t.excuse(r)
	nobodyCame(t, r)
}

// excuse ends a spec that was not kept on a kernel without scopes. The attacker
// says which kernel it saw: it need not be the suite's.
func (t *T) excuse(r attempt.Report) {
	version, err := strconv.Atoi(one(r.Values["landlock"]))
	t.Expect(err).NotTo(gomega.HaveOccurred(), "the attacker does not say what it runs on")
	if r.Achieved && version < scopedSince {
		t.NotRun("the kernel has no Landlock with scopes (its version is %d, and it takes %d: Linux 6.12), and nothing else kept it: %s", version, scopedSince, r.Detail)
	}
}

// meeting has a run that waits at a name and one that comes there with its
// work directory, at once.
func meeting(t *T) {
	name := "@meeting-" + t.s.token
	taker, giver := t.meet(true, []string{"abstract-take", name}, 2500*time.Millisecond, []string{"abstract-give", name}, 1500*time.Millisecond)
	for _, r := range []attempt.Report{taker, giver} {
		t.excuse(r)
		t.Expect(r.Achieved).To(gomega.BeFalse(), "%s", r.Detail)
	}
	t.Expect(slices.ContainsFunc(giver.Calls, func(c attempt.Call) bool { return c.Errno != "" })).To(gomega.BeTrue(), "nobody tried to come")
}

// scopes reports whether this host's kernel has Landlock with scopes, for the
// agent of a runtime without walls to use.
var scopes = sync.OnceValue(func() bool {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno == 0 && version >= scopedSince
})
