package bundle

import (
	"crypto/rand"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Manifest is what spec tells an agent, with a fresh seal key. Entries that
// ask for the artifact still say so: where it is, the transport knows.
// Canaries are given to runs without network alone.
func Manifest(spec sandbox.RunSpec, canaries []netip.AddrPort) *wire.Manifest {
	m := &wire.Manifest{
		Wire:      wire.Version,
		Label:     spec.Label,
		Entries:   slices.Clone(spec.Bundle.Entries),
		Policy:    spec.Bundle.Policy,
		Argv:      slices.Clone(spec.Argv),
		Limits:    spec.Limits,
		TimeoutMS: spec.Timeout.Milliseconds(),
		Network:   spec.Network,
		Canaries:  []string{},
		SealKey:   wire.NewSealKey(),
	}
	if m.Entries == nil {
		m.Entries = []wire.Entry{}
	}
	if !spec.Network {
		m.Canaries = canaryStrings(canaries)
	}
	return m
}

// ProbeTimeout is how long a probe may take once its manifest is fetched. The
// slowest assertion waits three seconds for a canary's answer.
const ProbeTimeout = 30 * time.Second

// ProbeWallMB is the highest memory limit that a probe runs into, in MiB. Where
// the wall stands is arithmetic; that there is one is what has to be seen, and
// gigabytes would be written for it, every time.
const ProbeWallMB = 256

// ProbeManifest is the manifest of a probe: an ordinary run's, with the walls
// to assert in the scanner's place. worker labels it, and a job that is never
// repeated: instances are named after their job, and several workers on one
// host probe at the same time.
func ProbeManifest(room sandbox.Room, worker string, canaries []netip.AddrPort) *wire.Manifest {
	limits := room.Limits
	if limits == (wire.Limits{}) {
		limits = wire.DefaultLimits()
	}
	return &wire.Manifest{
		Wire:      wire.Version,
		Label:     wire.Label{Worker: worker, Job: probeJob(), Scanner: room.Scanner, Attempt: 1},
		Entries:   []wire.Entry{},
		Policy:    wire.DefaultExtractPolicy(),
		Argv:      []string{},
		Limits:    limits,
		TimeoutMS: ProbeTimeout.Milliseconds(),
		Canaries:  canaryStrings(canaries),
		SealKey:   wire.NewSealKey(),
		Probe: &wire.ProbeRequest{
			Commands:   append([]string{}, room.Commands...),
			WorkerRoom: room.WorkerRoom,
		},
	}
}

func probeJob() string { return "probe-" + strings.ToLower(rand.Text()[:8]) }

func canaryStrings(canaries []netip.AddrPort) []string {
	list := make([]string, 0, len(canaries))
	for _, c := range canaries {
		list = append(list, c.String())
	}
	return list
}
