package probe

import (
	"context"
	"fmt"
	"strings"

	"github.com/batleforc/batlehub-sandbox/agent/internal/launch"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Run makes every assertion of wire.Assertions but AssertResult, in their
// order. It takes as long as its slowest canary, and the memory wall's child
// where a wall is claimed; when ctx ends first, what is left fails.
func Run(ctx context.Context, m *wire.Manifest, room Room) wire.ProbeResult {
	p := &probe{Room: room, manifest: m, request: m.Probe}
	if p.request == nil {
		p.request = &wire.ProbeRequest{}
	}
	p.child, p.childErr = room.Witness(ctx, room.Exchanges)
	result := wire.ProbeResult{Verdicts: []wire.Verdict{}, Commands: []wire.CommandReport{}, UID: room.EUID}
	for _, a := range assertions {
		outcome, detail := a.make(p, ctx)
		result.Verdicts = append(result.Verdicts, wire.Verdict{ID: a.id, Outcome: outcome, Detail: oneLine(detail)})
	}
	result.Commands = append(result.Commands, p.commands...)
	return result
}

// probe is one probe in progress.
type probe struct {
	Room
	manifest *wire.Manifest
	request  *wire.ProbeRequest
	child    launch.WitnessReport
	childErr error
	commands []wire.CommandReport
}

// assertions are in wire.Assertions' order. AssertResult is the worker's: it
// can't be made by somebody whose result may never arrive.
var assertions = [...]struct {
	id   wire.AssertionID
	make func(*probe, context.Context) (wire.Outcome, string)
}{
	{wire.AssertWire, (*probe).wireVersion},
	{wire.AssertNetwork, (*probe).network},
	{wire.AssertReadOnlyRoot, (*probe).readOnlyRoot},
	{wire.AssertWorkDir, (*probe).oneWritableDir},
	{wire.AssertEnvironment, (*probe).environment},
	{wire.AssertUnprivileged, (*probe).unprivileged},
	{wire.AssertCredentials, (*probe).credentials},
	{wire.AssertRoom, (*probe).noShell},
	{wire.AssertCommand, (*probe).scannerCommand},
	{wire.AssertPIDNamespace, (*probe).pidNamespace},
	{wire.AssertSeccomp, (*probe).seccomp},
	{wire.AssertNoNewPrivs, (*probe).noNewPrivileges},
	{wire.AssertMemory, (*probe).memoryWall},
}

// wireVersion passes once the agent has come here: it refuses a manifest of
// any other version before it looks at the rest of it.
func (p *probe) wireVersion(context.Context) (wire.Outcome, string) {
	if p.manifest.Wire != wire.Version {
		return fail("the manifest has wire version %d, this agent speaks %d", p.manifest.Wire, wire.Version)
	}
	return pass("wire version %d on both sides", wire.Version)
}

func pass(format string, args ...any) (wire.Outcome, string) {
	return wire.Pass, fmt.Sprintf(format, args...)
}

func fail(format string, args ...any) (wire.Outcome, string) {
	return wire.Fail, fmt.Sprintf(format, args...)
}

// oneLine makes a detail that fits the wire: one line of printable text of at
// most wire.DetailCap bytes.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > wire.DetailCap {
		s = strings.ToValidUTF8(s[:wire.DetailCap-len("…")], "") + "…"
	}
	return s
}
