// Command extractbench measures the extractor beside the programs people use:
// GNU tar and bsdtar on a tar.gz, Info-ZIP unzip on a zip, each over more than
// 10,000 files and to a memory file system, in turns, every side a process of
// its own. It prints both sides of each ratio, or JSON when its argument is
// "json". The files are the Go toolchain's sources.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Result is one comparison, as design tables and reports take it.
type Result struct {
	Name     string            `json:"name"`
	Ours     float64           `json:"ours"`
	Theirs   map[string]string `json:"theirs"`
	Value    float64           `json:"value"`
	Unit     string            `json:"unit"`
	Goal     float64           `json:"goal"`
	Met      bool              `json:"met"`
	Commands []string          `json:"commands"`
}

const (
	rounds = 9
	memory = "/dev/shm"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "extractbench:", err)
		os.Exit(1)
	}
}

// command is "extractbench [json]", or our side of a comparison, which it
// starts itself: "extractbench extract ARCHIVE DIRECTORY".
func command(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "extract":
		return extractOne(args[1], args[2])
	case len(args) == 0 || len(args) == 1 && args[0] == "json":
		return run(len(args) == 1)
	}
	return errors.New("usage: extractbench [json]")
}

// extractOne is our side, with the memory settings of the agent.
func extractOne(archive, into string) error {
	debug.SetGCPercent(50)
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	policy := wire.DefaultExtractPolicy()
	policy.MaxBytes, policy.MaxFileBytes, policy.MaxEntries = 4<<30, 4<<30, 100_000
	return extract.New(root, policy).Archive(context.Background(), "in", f, wire.MustRelPath("."), nil)
}

func run(asJSON bool) error {
	tmp := memory
	if _, err := os.Stat(tmp); err != nil {
		tmp = os.TempDir()
	}
	dir, err := os.MkdirTemp(tmp, "extractbench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("finding the Go toolchain: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{dir: dir, self: self}
	results, err := b.all(source)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(results)
	}
	for _, r := range results {
		fmt.Printf("%-22s ours %.3f %s, %v: %.3f, goal at most %.2f, met: %v\n", r.Name, r.Ours, r.Unit, r.Theirs, r.Value, r.Goal, r.Met)
	}
	return nil
}

type bench struct {
	dir, self string
}

func (b *bench) all(source string) ([]Result, error) {
	tgz, zip, big := filepath.Join(b.dir, "a.tgz"), filepath.Join(b.dir, "a.zip"), filepath.Join(b.dir, "big.tgz")
	pack := []*exec.Cmd{
		exec.Command("tar", "-C", filepath.Dir(source), "-czf", tgz, filepath.Base(source)),
		exec.Command("zip", "-qr", zip, "."),
	}
	pack[1].Dir = source
	for _, c := range pack {
		if out, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", c, err, out)
		}
	}
	var results []Result
	for _, c := range []struct {
		name   string
		goal   float64
		ours   []string
		theirs [][]string
	}{
		{"tar.gz to tmpfs", 0.55, []string{b.self, "extract", tgz, "OUT"}, [][]string{{"tar", "-xzf", tgz, "-C", "OUT"}, {"bsdtar", "-xzf", tgz, "-C", "OUT"}}},
		{"zip to tmpfs", 0.4, []string{b.self, "extract", zip, "OUT"}, [][]string{{"unzip", "-q", zip, "-d", "OUT"}}},
	} {
		r, err := b.compare(c.name, c.goal, c.ours, c.theirs)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	peak, err := b.resident(source, big)
	if err != nil {
		return nil, err
	}
	return append(results, peak), nil
}

// compare runs both sides in turns and takes the shortest of each: what else
// runs on the machine only ever adds.
func (b *bench) compare(name string, goal float64, ours []string, theirs [][]string) (Result, error) {
	sides := append([][]string{ours}, theirs...)
	times := make([][]float64, len(sides))
	for range rounds {
		for i, argv := range sides {
			seconds, _, err := b.once(argv)
			if errors.Is(err, exec.ErrNotFound) && i > 1 {
				continue
			}
			if err != nil {
				return Result{}, err
			}
			times[i] = append(times[i], seconds)
		}
	}
	r := Result{Name: name, Unit: "s", Goal: goal, Ours: slices.Min(times[0]), Theirs: map[string]string{}}
	fastest := 0.0
	for i, t := range times[1:] {
		r.Commands = append(r.Commands, strings.Join(theirs[i], " "))
		if len(t) == 0 {
			continue
		}
		m := slices.Min(t)
		r.Theirs[theirs[i][0]] = fmt.Sprintf("%.3f", m)
		if fastest == 0 || m < fastest {
			fastest = m
		}
	}
	r.Commands = append(r.Commands, strings.Join(ours, " "))
	r.Value = r.Ours / fastest
	r.Met = r.Value <= goal
	return r, nil
}

// once runs one side into a fresh directory and returns its seconds and its
// largest resident set in KiB.
func (b *bench) once(argv []string) (float64, int64, error) {
	out := filepath.Join(b.dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return 0, 0, err
	}
	defer func() { _ = os.RemoveAll(out) }()
	argv = slices.Clone(argv)
	for i := range argv {
		if argv[i] == "OUT" {
			argv[i] = out
		}
	}
	c := exec.Command(argv[0], argv[1:]...)
	start := time.Now()
	if text, err := c.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("%s: %w: %s", c, err, text)
	}
	return time.Since(start).Seconds(), c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, nil
}

// resident measures the resident set over more than 500 MiB in as many files as
// the policy allows by default.
func (b *bench) resident(source, archive string) (Result, error) {
	tree := filepath.Join(b.dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return Result{}, err
	}
	script := `cd "$1" && for i in 1 2 3 4 5; do ln -s "$2" "$i"; done && tar -chzf "$3" .`
	if out, err := exec.Command("sh", "-c", script, "sh", tree, source, archive).CombinedOutput(); err != nil {
		return Result{}, fmt.Errorf("packing 500 MiB: %w: %s", err, out)
	}
	argv := []string{b.self, "extract", archive, "OUT"}
	_, peak, err := b.once(argv)
	if err != nil {
		return Result{}, err
	}
	_, theirs, err := b.once([]string{"tar", "-xzf", archive, "-C", "OUT"})
	if err != nil {
		return Result{}, err
	}
	mib := float64(peak) / 1024
	return Result{
		Name: "memory over 500 MiB", Unit: "MiB", Goal: 24, Ours: mib, Value: mib, Met: mib <= 24,
		Theirs: map[string]string{"tar": fmt.Sprintf("%.1f", float64(theirs)/1024)}, Commands: []string{strings.Join(argv, " ")},
	}, nil
}
