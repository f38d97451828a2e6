package conformance

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/gomega"
)

// engineWalls are kept by runtimes that have an engine below them, or a
// network of their own for each run.
func engineWalls() []Spec {
	w := func(id, title, why string, control Control, check func(*T), needs ...Capability) Spec {
		return Spec{ID: id, Group: Walled, Title: title, Why: why, Needs: append([]Capability{Walls}, needs...), Control: control, check: check}
	}
	return []Spec{
		w("W84", "two runs at once do not meet over a network", "Whatever network a run needs for its transport, no other run is on it.", Broken, strangers),
		w("W110", "the engine's filter lies below the agent's", "The engine's own profile and no_new_privs are on before the agent adds its own, so that neither has to be believed alone.", Kept, twoFilters, OuterFilter),
		w("W111", "the exchange directory is closed to the scanner", "Bundle and result pass through a directory of the agent's uid: what is in there is nothing of the scanner's, although it has that uid too.", Kept, exchangeClosed),
		w("W114", "who is inside is nobody of the host's", "In a user namespace of its own a sandbox's uid, whatever it becomes, is one that owns nothing outside.", Broken, ownUsers, UserNamespace),
		w("W113", "the work directory is full at its size", "The work directory is memory of the sandbox's, so that it ends where the policy says and the scanner is told so.", Kept, workFull, WorkWall),
		w("W115", "what the kernel tells about the machine is masked", "Keys, interrupts and timers of the whole machine are no scanner's business; what the runtime says to mask is empty or not there.", Kept, masked),
		w("W116", "what is bound from the host is bound with its flags", "Inputs and results pass through directories of the host's, where nothing is a device, privileged or a program, and what is only to be read can't be written.", Kept, boundWithFlags),
	}
}

// strangers has a run that listens and one that looks for it on every network
// that it is on, at once.
func strangers(t *T) {
	port := t.port()
	held, seeker := t.meet(false, []string{"listen-for", port}, 4*time.Second, []string{"seek-net", port}, 2500*time.Millisecond)
	t.Expect(seeker.Achieved).To(gomega.BeFalse(), "%s", seeker.Detail)
	t.Expect(held.Achieved).To(gomega.BeFalse(), "%s", held.Detail)
}

func twoFilters(t *T) {
	r := t.Hostile("status")
	filters, err := strconv.Atoi(one(r.Values["Seccomp_filters"]))
	t.Expect(err).NotTo(gomega.HaveOccurred(), "Seccomp_filters is %v", r.Values["Seccomp_filters"])
	t.Expect(filters).To(gomega.BeNumerically(">=", 2), "the agent's filter is alone: the engine has none, or was told to have none")
	// pid 1 is the agent, which puts its filter and the bit on its child alone.
	t.Expect(one(r.Values["1:Seccomp_filters"])).NotTo(gomega.BeElementOf("", "0"), "the agent itself is behind no filter of the engine's")
	t.Expect(r.Values["1:NoNewPrivs"]).To(gomega.Equal([]string{"1"}), "the engine lets the agent gain privileges")
}

func ownUsers(t *T) {
	link, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		t.NotRun("this host has no user namespaces: %v", err)
	}
	t.Expect(t.Hostile("namespace-links").Values["user"]).NotTo(gomega.Equal([]string{link}), "the user namespace is the host's")
}

func exchangeClosed(t *T) {
	if t.s.target.Exchange == "" {
		t.NotClaimed("nothing passes through a directory of its own")
	}
	r := t.Hostile("exchange", t.s.target.Exchange)
	if version, err := strconv.Atoi(one(r.Values["landlock"])); err == nil && r.Achieved && version < 2 {
		t.NotRun("the kernel has no Landlock that closes directories (its version is %d, and it takes 2: Linux 5.19): %s", version, r.Detail)
	}
	t.Expect(r.Calls).NotTo(gomega.BeEmpty())
	t.Expect(r.Achieved).To(gomega.BeFalse(), "%s", r.Detail)
}

func workFull(t *T) {
	const size = 64
	spec := t.HostileSpec("disk-fill", strconv.Itoa(2*size))
	spec.Bundle.Policy.MaxBytes, spec.Bundle.Policy.MaxFileBytes = size<<20, size<<20
	r := t.HostileRun(spec)
	t.Expect(r.Achieved).To(gomega.BeFalse(), "%s into a work directory of %d MiB", r.Detail, size)
	t.Expect(r.Errno).To(gomega.Equal("ENOSPC"), "%s", r.Detail)
	written, err := strconv.Atoi(one(r.Values["MiB"]))
	t.Expect(err).NotTo(gomega.HaveOccurred())
	t.Expect(written).To(gomega.BeNumerically(">=", size-8), "the work directory is smaller than the policy says")
}

// masked looks at each file that the target masks: it is not there, or empty.
func masked(t *T) {
	if len(t.s.target.Masked) == 0 {
		t.NotClaimed("the target masks nothing")
	}
	shown := 0
	for _, name := range t.s.target.Masked {
		if b, err := os.ReadFile(name); err == nil && len(b) > 0 {
			shown++
		}
		out := t.Exited(t.HostileSpec("cat", name))
		t.Expect(out.Stdout).To(gomega.BeEmpty(), "%s can be read", name)
	}
	if shown == 0 {
		t.NotRun("this host's kernel has none of %v", t.s.target.Masked)
	}
}

func boundWithFlags(t *T) {
	if len(t.s.target.Bound) == 0 {
		t.NotClaimed("the target binds nothing, or says nothing of its flags")
	}
	mounts := t.Hostile("mounts").Values
	for place, want := range t.s.target.Bound {
		flags := strings.Split(one(mounts[place]), ",")
		for _, flag := range want {
			t.Expect(flags).To(gomega.ContainElement(flag), "%s is mounted %v", place, mounts[place])
		}
	}
}
