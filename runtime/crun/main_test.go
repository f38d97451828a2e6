package crun

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
)

// TestMain lets the test binary be the worker that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[0] == "worker" {
		worker(Config{Program: os.Args[1], Rooms: os.Args[2], StateDir: os.Args[3], CgroupParent: os.Args[4]})
	}
	status := m.Run()
	testkit.Clean()
	os.Exit(status)
}

// worker makes one run that does not end by itself.
func worker(c Config) {
	r, err := New(c)
	if err != nil {
		os.Exit(1)
	}
	r.host.hidden = true
	spec := scan("sleep", "600")
	spec.Label.Worker, spec.Timeout = "killed", 10*time.Minute
	if _, err := r.Run(context.Background(), spec); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
	}
	os.Exit(1)
}
