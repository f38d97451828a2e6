package bundle

import "github.com/batleforc/batlehub-sandbox/wire"

// AgentThreads is how many of its sandbox's threads a scanner leaves to the
// agent. A Go program that gets no thread when it wants one ends at once, and a
// run whose scanner has made all that there are would be without an answer. It
// takes some ten on a small host, and one more for each CPU that its collector
// runs on at the scanner's end.
const AgentThreads = 32

// Sparing is m for a sandbox that may have so many threads in all, the agent's
// included: its scanner may have fewer. A small sandbox is shared by halves. A
// manifest without a bound stays one.
func Sparing(m *wire.Manifest, threads int64) *wire.Manifest {
	most := threads - min(AgentThreads, threads/2)
	if m.Limits.Processes <= most {
		return m
	}
	spared := *m
	spared.Limits.Processes = most
	return &spared
}
