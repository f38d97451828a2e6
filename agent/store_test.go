package agent_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestARehearsalLeavesTheResultAsItIs(t *testing.T) {
	// Too large as it stands, so that every way to make it smaller is taken.
	note := wire.Note{Entry: strings.Repeat("e", 4000), Rule: "r", Action: "a", Detail: strings.Repeat("d", 4000)}
	made := func() wire.Result {
		return wire.Result{
			Wire: wire.Version, Agent: "agent", StderrTail: strings.Repeat("s", 1<<20),
			Extraction: wire.Extraction{Notes: slices.Repeat([]wire.Note{note}, 1000)},
		}
	}
	r := made()
	agent.Rehearse(&r)
	if !reflect.DeepEqual(r, made()) {
		t.Errorf("it became %+v", r)
	}
}
