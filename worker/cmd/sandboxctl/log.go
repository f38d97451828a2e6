package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
)

// docs is where an operator reads on.
const docs = "see docs/operations/scan-worker.md#runtimes"

// logProbing says which runtime is about to be probed, and where it runs.
func (a *app) logProbing(s *session, rooms []sandbox.Room) {
	var images []string
	for _, r := range rooms {
		images = append(images, r.Image)
	}
	where := s.Placement(images...)
	if where != "" {
		where = " (" + where + ")"
	}
	a.say("INFO sandbox: probing runtime %q%s", s.Name(), where)
}

// logProbe says what a passed or skipped probe saw.
func (a *app) logProbe(p sandbox.ProbeReport) {
	if p.Skipped != "" {
		a.say("INFO sandbox: probe skipped for runtime %q: %s", p.Runtime, p.Skipped)
		return
	}
	a.say("INFO sandbox: probe passed in %.1fs — %s", p.Duration.Seconds(), walls(p))
}

// walls names the walls that a probe saw standing.
func walls(p sandbox.ProbeReport) string {
	words := map[wire.AssertionID]string{
		wire.AssertNetwork: "no network", wire.AssertReadOnlyRoot: "read-only root",
		wire.AssertEnvironment: "empty environment", wire.AssertSeccomp: "seccomp filter",
	}
	var seen []string
	for _, v := range p.Verdicts {
		if word := words[v.ID]; word != "" && v.Outcome == wire.Pass {
			seen = append(seen, word)
		}
		if v.ID == wire.AssertEnvironment {
			seen = append(seen, fmt.Sprintf("uid %d", p.UID))
		}
	}
	return strings.Join(append(seen, "agent "+agentVersion(p.Agent)), ", ")
}

// agentVersion is the version in an agent's "batlehub-sandbox 1.2.3".
func agentVersion(agent string) string { return strings.TrimPrefix(agent, "batlehub-sandbox ") }

// refusal prints the refusal of a failed probe: the assertion that failed, what
// follows from it, and what to do, one line each.
func (a *app) refusal(err error) error {
	failed, is := errors.AsType[*sandbox.ProbeError](err)
	if !is {
		return err
	}
	hint := failed.Hint
	if hint == "" {
		hint = docs
	}
	a.say("ERROR sandbox: %s", failed)
	a.say("ERROR sandbox: refusing to start — a worker without its sandbox scans nothing, it does not scan unsandboxed")
	fmt.Fprintf(a.stderr, "       (%s)\n", ui.Line(hint))
	return quiet(ExitFailed)
}
