package bwrap

import (
	"context"
	"net/netip"
	"os"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:80")

// TestMain lets the test binary be the worker that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[0] == "worker" {
		worker(os.Args[1], os.Args[2], os.Args[3])
	}
	status := m.Run()
	testkit.Clean()
	os.Exit(status)
}

// worker runs one verb over and over until it is killed.
func worker(rooms, runs, verb string) {
	r, err := New(Config{Rooms: rooms, RunDir: runs})
	if err != nil {
		os.Exit(1)
	}
	os.Stdout.WriteString("ready\n")
	for {
		spec := stubSpec()
		spec.Argv = []string{verb}
		_, _ = r.Run(context.Background(), spec)
	}
}
