package identity

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// workerVariable makes this test's program a worker in the directory that it
// names: it says its id, sweeps what it answers for, and lives until its input
// ends.
const workerVariable = "BATLEHUB_TEST_WORKERS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(workerVariable); dir != "" {
		os.Exit(live(dir))
	}
	os.Exit(m.Run())
}

func live(dir string) int {
	w, err := Place{Dir: dir}.Take()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var swept []string
	_ = w.Settle(func(id string) error { swept = append(swept, id); return nil })
	fmt.Println(w.ID(), strings.Join(swept, " "))
	_, _ = io.Copy(io.Discard, os.Stdin)
	w.Close(false)
	return 0
}

func take(t *testing.T, p Place) *Worker {
	t.Helper()
	w, err := p.Take()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// killed is what the end of a process leaves of a worker.
func killed(w *Worker) {
	for _, h := range w.held {
		_ = h.file.Close()
	}
}

func settled(t *testing.T, w *Worker) []string {
	t.Helper()
	var all []string
	if err := w.Settle(func(id string) error { all = append(all, id); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func place(t *testing.T) Place {
	t.Helper()
	return Place{Dir: filepath.Join(t.TempDir(), "workers"), Reach: "oci podman"}
}

func files(t *testing.T, p Place) []string {
	t.Helper()
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
