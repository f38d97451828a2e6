package crun

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// bombed is a runtime over runc whose room holds a fork bomb.
func bombed(t *testing.T) *Runtime {
	t.Helper()
	program := engineOf(t, "runc")
	bomb := testkit.Build(t, "github.com/batleforc/batlehub-sandbox/runtime/crun/testdata/bomb")
	rooms := testkit.Rooms(t, "scanner", testkit.Agent(t), room.Source{Path: bomb, To: "/usr/bin/bomb"})
	if _, err := WritePin(t.Context(), rooms+"/scanner"); err != nil {
		t.Fatal(err)
	}
	return over(t, program, rooms, nil)
}

func explode(args ...string) sandbox.RunSpec {
	spec := scan(append([]string{"bomb"}, args...)...)
	spec.Limits.AddressSpaceMB = wire.AddressSpaceOff
	return spec
}

func TestAForkBombLeavesTheAgentItsThreads(t *testing.T) {
	r := bombed(t)
	spec := explode()
	out, err := r.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	made, err := strconv.ParseInt(strings.TrimSpace(string(out.Stdout)), 10, 64)
	if most := spec.Limits.Processes - bundle.AgentThreads; err != nil || made < most/2 || made >= most {
		t.Errorf("it has made %d processes, want fewer than %d: %v", made, most, err)
	}
}

func TestAForkBombWithoutAnEndEndsAtItsTimeout(t *testing.T) {
	r := bombed(t)
	spec := explode("on")
	spec.Timeout = 2 * time.Second
	var runs sync.WaitGroup
	for range 4 {
		runs.Go(func() {
			if _, err := r.Run(t.Context(), spec); sandbox.KindOf(err) != sandbox.RunTimeout {
				t.Errorf("got %v", err)
			}
		})
	}
	runs.Wait()
}
