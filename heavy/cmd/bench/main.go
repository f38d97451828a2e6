// Command bench measures what the project is held to, each number beside what
// it is compared with, in one go: the two sides take turns, so that a drift of
// the machine's speed meets both. It prints a line per benchmark and writes
// out/bench/<name>.json.
//
// A number that misses its goal is reported, not failed: only a benchmark that
// could not be carried out makes the exit status 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
)

// bench is what a benchmark gets.
type bench struct {
	lab    *lab.Lab
	agent  string // the agent as built for release
	dir    string // scratch, on tmpfs where there is one
	rounds int
}

// errMissing says that a benchmark's other side is not on this host.
var errMissing = errors.New("not run")

var benchmarks = []struct {
	name string
	run  func(context.Context, *bench) (result, error)
}{
	{"bwrap-run", bwrapRun},
	{"podman-run", podmanRun},
	{"docker-run", dockerRun},
	{"runc-run", runcRun},
	{"runc-run-recorded", runcRecordedRun},
	{"runsc-run", runscRun},
	{"kubernetes-run", kubernetesRun},
	{"kubernetes-reach", kubernetesReach},
	{"extract-targz", extractTarGz},
	{"extract-zip", extractZip},
	{"agent-memory", agentMemory},
	{"agent-size", agentSize},
	{"launch-stage", launchStage},
}

func main() {
	// The bench starts itself as the small programs it measures.
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "helper:") {
		os.Exit(helper(os.Args[1], os.Args[2:]))
	}
	bin := flag.String("bin", "out/bin", "where the built agent is")
	out := flag.String("out", "out/bench", "where the reports go")
	rounds := flag.Int("rounds", 15, "measured rounds of each benchmark")
	only := flag.String("only", "", "run the benchmarks whose name has this in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin, *out, *only, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, out, only string, rounds int) (err error) {
	dir, err := scratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := lab.New(ctx, dir)
	if err != nil {
		return err
	}
	agent, err := filepath.Abs(filepath.Join(bin, "batlehub-sandbox-linux-"+goarch))
	if err != nil {
		return err
	}
	b := &bench{lab: l, agent: agent, dir: dir, rounds: rounds}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var failed []error
	for _, benchmark := range benchmarks {
		if !strings.Contains(benchmark.name, only) {
			continue
		}
		r, err := benchmark.run(ctx, b)
		switch {
		case errors.Is(err, errMissing):
			fmt.Printf("%-17s %v\n", benchmark.name, err)
			continue
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", benchmark.name, err))
			continue
		}
		r.Name = benchmark.name
		fmt.Println(r)
		failed = append(failed, r.write(out))
	}
	return errors.Join(failed...)
}

// scratch is a directory on tmpfs where there is one, searchable by the uid
// that a runtime drops to.
func scratch() (string, error) {
	parent := os.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "batlehub-bench-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711) //nolint:gosec // other users need to pass through it.
}

func helper(name string, args []string) int {
	helpers := map[string]func([]string) error{"helper:extract": helperExtract, "helper:rusage": helperRusage}
	if err := helpers[name](slices.Clone(args)); err != nil {
		fmt.Fprintln(os.Stderr, name, err)
		return 1
	}
	return 0
}
