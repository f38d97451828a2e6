package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// probeSpecs are the probe over a good room, and each of its assertions made
// to fail once.
func probeSpecs() []Spec {
	needs := []Capability{Probe}
	specs := []Spec{
		{
			ID: "P01", Group: Probing, Title: "a good room passes", Needs: needs, check: goodRoom,
			Why: "Every assertion is made and held, in order, and the room's commands are named with the digests that they have.",
		},
		{
			ID: "P02", Group: Probing, Title: "a probe that is cancelled says so", Needs: needs, check: cancelledProbe,
			Why: "A probe that could not be carried out says nothing about the walls, and must not look as if it did.",
		},
		{
			ID: "P03", Group: Probing, Title: "what an operator smuggles in is caught", Needs: needs, check: smuggled,
			Why: "Arguments are passed on word for word, so that each that takes a wall down has to be seen by the probe, or refused before.",
		},
	}
	for i, id := range wire.Assertions {
		specs = append(specs, Spec{
			ID: fmt.Sprintf("P%02d", 10+i), Group: Probing, Title: fmt.Sprintf("%q fails when it is broken", string(id)), Needs: needs,
			Why:   "An assertion that was never seen to fail is not known to assert anything: it is broken alone, and alone it fails.",
			check: func(t *T) { brokenAssertion(t, id) },
		})
	}
	return specs
}

// probe probes a room and keeps the report as evidence.
func (t *T) probe(runtime sandbox.Runtime, room sandbox.Room) sandbox.ProbeReport {
	started := time.Now()
	found, err := runtime.Probe(t.ctx, room)
	e := report.Evidence{Run: "probe of " + room.Scanner, Seconds: time.Since(started).Seconds(), Note: found.Hint}
	if err != nil {
		e.Error = redact(err.Error())
	}
	if b, err := json.Marshal(found.Verdicts); err == nil {
		e.Result = redact(clip(string(b), 6000))
	}
	t.addEvidence(e)
	t.Expect(err).NotTo(gomega.HaveOccurred(), "the probe")
	return found
}

// room is the target's room.
func (t *T) room() sandbox.Room {
	room, err := t.s.target.Room(t.ctx, t.s.setup)
	if err != nil {
		t.Broke("making the room to probe: %v", err)
	}
	return room
}

func goodRoom(t *T) {
	room := t.room()
	found := t.probe(t.s.runtime, room)
	t.Expect(found.Err()).NotTo(gomega.HaveOccurred())
	var ids []wire.AssertionID
	for _, v := range found.Verdicts {
		ids = append(ids, v.ID)
		t.Expect(v.Outcome).To(gomega.BeElementOf(wire.Pass, wire.NotClaimed), "%s: %s", v.ID, v.Detail)
		if v.Outcome == wire.NotClaimed {
			t.Expect(v.ID).To(gomega.Equal(wire.AssertMemory), "%s is no wall that a runtime may do without", v.ID)
			t.Expect(t.s.target.Claims(MemoryWall)).To(gomega.BeFalse(), "the memory wall is claimed, and the probe does not")
		}
	}
	t.Expect(ids).To(gomega.Equal(wire.Assertions))
	t.Expect(found.UID).NotTo(gomega.BeZero())
	t.Expect(found.Agent).NotTo(gomega.BeEmpty())
	t.Expect(found.Commands).To(gomega.HaveLen(len(room.Commands)))
	content, err := os.ReadFile(t.s.setup.Programs["hostile"])
	if err != nil {
		t.Broke("reading the hostile program: %v", err)
	}
	t.Expect(slices.ContainsFunc(found.Commands, func(c wire.CommandReport) bool {
		return c.SHA256 == digestOf(content) && c.Size == int64(len(content))
	})).To(gomega.BeTrue(), "no command has the digest of the program that is in the room: %v", found.Commands)
}

// smuggled probes with every configuration that takes a wall down. One that
// does not even start has let nothing through.
func smuggled(t *T) {
	if len(t.s.target.Smuggled) == 0 {
		t.NotClaimed("the target passes nothing on that could take a wall down")
	}
	var missed []string
	for _, s := range t.s.target.Smuggled {
		runtime, room, err := s.Make(t.ctx, t.s.setup)
		if errors.Is(err, ErrNotBreakable) {
			t.note(s.Name, "not tried: "+err.Error())
			continue
		}
		if sandbox.KindOf(err) == sandbox.Refused {
			t.note(s.Name, "refused: "+redact(err.Error()))
			continue
		}
		if err != nil {
			t.Broke("smuggling %s: %v", s.Name, err)
		}
		found := t.probe(runtime, room)
		t.Expect(runtime.Close()).To(gomega.Succeed())
		caught := found.Err()
		t.note(s.Name, fmt.Sprintf("caught: %v", caught))
		if caught == nil {
			missed = append(missed, s.Name)
		}
	}
	t.Expect(missed).To(gomega.BeEmpty(), "the probe passes although a wall is down")
}

func cancelledProbe(t *T) {
	ctx, cancel := contextDone(t.ctx)
	defer cancel()
	found, err := t.s.runtime.Probe(ctx, t.room())
	t.Expect(err).To(gomega.HaveOccurred(), "a probe under a context that had ended reported %v", found.Verdicts)
}

// brokenAssertion breaks what one assertion is about. It must fail, the probe
// with it, and every other assertion must hold as before.
func brokenAssertion(t *T, id wire.AssertionID) {
	if id == wire.AssertMemory && !t.s.target.Claims(MemoryWall) {
		t.NotClaimed("the target claims no memory wall")
	}
	if t.s.target.Broken == nil {
		t.NotRun("the target has no way to break an assertion")
	}
	runtime, room, err := t.s.target.Broken(t.ctx, t.s.setup, id)
	if errors.Is(err, ErrNotBreakable) {
		t.NotRun("%v", err)
	}
	if err != nil {
		t.Broke("breaking %s: %v", id, err)
	}
	t.Cleanup(func() { t.Expect(runtime.Close()).To(gomega.Succeed()) })
	found := t.probe(runtime, room)
	var failed []wire.AssertionID
	for _, v := range found.Verdicts {
		if v.Outcome == wire.Fail {
			failed = append(failed, v.ID)
			t.Expect(v.Detail).NotTo(gomega.BeEmpty(), "%s failed without a word", v.ID)
		}
	}
	t.Expect(failed).To(gomega.Equal([]wire.AssertionID{id}), "only what was broken fails")
	var pe *sandbox.ProbeError
	t.Expect(errors.As(found.Err(), &pe)).To(gomega.BeTrue(), "a failed assertion is an error of the probe")
	t.Expect(pe.Verdict.ID).To(gomega.Equal(id))
	t.Expect(found.Hint).NotTo(gomega.BeEmpty(), "there is no hint what to do")
}
