package bundle

import (
	"testing"

	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestAScannerLeavesThreadsToTheAgent(t *testing.T) {
	for _, c := range []struct{ asked, threads, want int64 }{
		{256, 256, 224},
		{64, 64, 32},
		{16, 16, 8},
		{1, 1, 1},
		{64, 256, 64},
		{224, 256, 224},
		{225, 256, 224},
		{1000, 1000, 968},
		{0, 256, 0},
	} {
		m := &wire.Manifest{Limits: wire.Limits{Processes: c.asked}}
		if got := Sparing(m, c.threads).Limits.Processes; got != c.want {
			t.Errorf("%d of %d threads: the scanner may have %d, want %d", c.asked, c.threads, got, c.want)
		}
		if m.Limits.Processes != c.asked {
			t.Errorf("%d of %d threads: the caller's own manifest says %d", c.asked, c.threads, m.Limits.Processes)
		}
	}
}
