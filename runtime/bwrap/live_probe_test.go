package bwrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestAProbeOfARoomThatHoldsPasses(t *testing.T) {
	r, _ := live(t)
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
	if err != nil || report.Err() != nil {
		t.Fatalf("got %v, %v", report.Err(), err)
	}
	var ids []wire.AssertionID
	for _, v := range report.Verdicts {
		ids = append(ids, v.ID)
	}
	if !slices.Equal(ids, wire.Assertions) {
		t.Errorf("the verdicts are %v", ids)
	}
	if report.UID != UID || report.Agent != "fake" || report.Duration <= 0 || report.Hint != "" {
		t.Errorf("the report is %+v", report)
	}
}

func TestAnAssertionThatFailsOrIsLeftOutFailsTheProbeWithItsHint(t *testing.T) {
	r, _ := live(t)
	for _, id := range wire.Assertions[1:] {
		for _, how := range []string{"fail-", "omit-"} {
			report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner", Commands: []string{how + string(id)}})
			v, failed := report.Failed()
			if err != nil || !failed || v.ID != id || report.Hint != Hint(id) {
				t.Errorf("%s%s: got %+v, hint %q, %v", how, id, v, report.Hint, err)
			}
		}
	}
}

func TestAnAgentOfAnotherReleaseFailsTheProbeOnItsWireVersion(t *testing.T) {
	r, _ := live(t)
	for _, release := range []string{"older-release", "later-release"} {
		report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner", Commands: []string{release}})
		v, failed := report.Failed()
		if err != nil || !failed || v.ID != wire.AssertWire || !strings.Contains(v.Detail, "wire version 9") || report.Hint != Hint(wire.AssertWire) {
			t.Errorf("%s: got %+v, hint %q, %v", release, report.Verdicts, report.Hint, err)
		}
	}
}

func TestARoomWithoutAnAgentFailsTheProbeAndNamesIt(t *testing.T) {
	r, _ := live(t)
	rooms := testkit.Dir(t)
	for _, dir := range []string{"scanner/work", "scanner/proc", "scanner/dev", "scanner/usr/bin"} {
		if err := os.MkdirAll(filepath.Join(rooms, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.config.Rooms = rooms
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
	v, failed := report.Failed()
	if err != nil || !failed || v.ID != wire.AssertResult || !strings.Contains(v.Detail, "batlehub-sandbox") || !strings.Contains(report.Hint, "sandboxctl tree") {
		t.Errorf("got %+v, hint %q, %v", v, report.Hint, err)
	}
	if _, err := r.Run(t.Context(), verb("answer")); sandbox.CodeOf(err) != sandbox.CodeNoAgent {
		t.Errorf("got %v, want no_agent", err)
	}
}

func TestARoomWithoutMountPointsIsRefused(t *testing.T) {
	r, _ := live(t)
	r.config.Rooms = testkit.Dir(t)
	if err := os.Mkdir(filepath.Join(r.config.Rooms, "scanner"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), verb("answer")); sandbox.KindOf(err) != sandbox.Refused || !strings.Contains(err.Error(), "sandboxctl tree") {
		t.Errorf("got %v, want a refusal that says what to build", err)
	}
}
