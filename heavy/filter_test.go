package heavy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// filterCase is one way to run a real scanner.
type filterCase struct {
	// name is the case's, room the image's.
	name, room string
	argv       []string
	// wants is a text that the scanner's answer must hold: a case that finds
	// nothing would compare nothing.
	wants string
}

func filterCases() []filterCase {
	trivy := func(args ...string) []string {
		return append([]string{"trivy", "fs", "--quiet", "--cache-dir", "/work/.trivy", "--skip-version-check", "--skip-db-update",
			"--skip-check-update", "--offline-scan"}, append(args, "/work/artifact")...)
	}
	return []filterCase{
		{"gitleaks", "gitleaks", []string{"gitleaks", "dir", "--no-banner", "--no-color", "--log-level", "error", "--report-format", "json",
			"--report-path", "-", "--exit-code", "9", "/work/artifact"}, "private-key"},
		{"yara", "yara", []string{"yara", "-r", "-s", "/usr/share/yara/install-scripts.yar", "/work/artifact"}, "decodes_and_executes"},
		{"clamscan", "clamav", []string{"clamscan", "--database=/var/lib/clamav", "--no-summary", "-r", "/work/artifact"}, "BatleHub.Test.Marker"},
		{"trivy secret,misconfig,license", "trivy", trivy("--format", "json", "--scanners", "secret,misconfig,license"), "MIT"},
		{"trivy cyclonedx", "trivy", trivy("--format", "cyclonedx"), "pkg:npm/left-pad@1.3.0"},
		{"syft", "syft", []string{"syft", "scan", "dir:/work/artifact", "-o", "cyclonedx-json", "-q"}, "left-pad"},
	}
}

// filterReport is out/filter-report.json: what each scanner tried and the
// agent's filter refused.
type filterReport struct {
	Runtime string                   `json:"runtime"`
	Kernel  string                   `json:"kernel"`
	Cases   map[string]filterOutcome `json:"cases"`
	NotRun  map[string]string        `json:"not_run"`
}

type filterOutcome struct {
	Status    int  `json:"status"`
	SameAsOff bool `json:"same_as_without_filter"`
	// Calls is how many system calls the scanner made under the filter.
	Calls   int       `json:"calls"`
	Refused []refused `json:"refused"`
}

// Real scanners give the same answer with the agent's filter as without it, and
// what the filter refused them is written down.
func TestRealScannersAnswerTheSameUnderTheFilter(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("not run: no strace here")
	}
	needBwrap(t)
	artifact := filterArtifact(t)
	report := filterReport{Runtime: "bwrap", Kernel: kernelRelease(t), Cases: map[string]filterOutcome{}, NotRun: map[string]string{}}
	table := filterTable(t)
	for _, c := range filterCases() {
		t.Run(c.name, func(t *testing.T) {
			if reason := noRoom(t, c.room); reason != "" {
				report.NotRun[c.name] = reason
				t.Skip("not run: " + reason)
			}
			status, stdout := withoutFilter(t, c, artifact)
			plainStatus, plainStdout, _ := underFilter(t, c, artifact, "")
			traced, tracedStdout, calls := underFilter(t, c, artifact, strace)
			if !strings.Contains(string(stdout), c.wants) {
				t.Fatalf("the scanner found no %q: status %d: %s", c.wants, status, stdout)
			}
			same := sameAnswer(status, stdout, plainStatus, plainStdout) && sameAnswer(status, stdout, traced, tracedStdout)
			if !same {
				t.Errorf("without the filter: status %d\n%s\nwith it: status %d\n%s", status, stdout, plainStatus, plainStdout)
			}
			report.Cases[c.name] = filterOutcome{Status: plainStatus, SameAsOff: same, Calls: calls.count, Refused: calls.refusedBy(table)}
		})
	}
	writeFilterReport(t, report)
}

// filterTable reads the calls that the filter refuses, and its answers, out of
// the page that is rendered from its table.
func filterTable(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(checkout, "docs/seccomp.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		columns := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(columns) < 3 {
			continue
		}
		names, _, _ := strings.Cut(strings.TrimPrefix(columns[0], "| "), " where ")
		answer := strings.Trim(columns[1], "` ")
		for _, name := range strings.Fields(names) {
			name = strings.Trim(name, "`")
			table[name] = append(table[name], answer)
		}
	}
	for _, name := range []string{"ptrace", "clone3", "io_uring_setup", "socket", "ioctl"} {
		if len(table[name]) == 0 {
			t.Fatalf("docs/seccomp.md has no row for %s", name)
		}
	}
	return table
}

func noRoom(t *testing.T, room string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(checkout, "out/rooms", room, "usr/local/bin/batlehub-sandbox")); err != nil {
		return fmt.Sprintf("no room out/rooms/%s; scripts/images.sh makes it", room)
	}
	return ""
}

// withoutFilter runs the scanner in its room behind the same walls, started by
// bwrap itself and not by the agent.
func withoutFilter(t *testing.T, c filterCase, artifact string) (int, []byte) {
	t.Helper()
	work := filepath.Join(t.TempDir(), "work")
	if err := os.MkdirAll(filepath.Join(work, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	runCommand(t, exec.CommandContext(t.Context(), "mkdir", filepath.Join(work, "artifact")))
	runCommand(t, exec.CommandContext(t.Context(), "tar", "--no-same-owner", "-xzf", artifact, "-C", filepath.Join(work, "artifact")))
	room, err := filepath.Abs(filepath.Join(checkout, "out/rooms", c.room))
	if err != nil {
		t.Fatal(err)
	}
	argv := append([]string{"--unshare-all", "--die-with-parent", "--ro-bind", room, "/", "--proc", "/proc", "--dev", "/dev", "--bind", work, "/work",
		"--clearenv", "--setenv", "HOME", "/work", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--chdir", "/work", "--"}, c.argv...)
	cmd := exec.CommandContext(t.Context(), "bwrap", argv...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() < 0 {
		t.Fatalf("without the filter: %v: %s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Logf("without the filter: %s", stderr.String())
	}
	return cmd.ProcessState.ExitCode(), stdout.Bytes()
}

// underFilter runs the scanner as a worker does. With strace's path the whole
// sandbox is traced.
func underFilter(t *testing.T, c filterCase, artifact, strace string) (int, []byte, *trace) {
	t.Helper()
	rooms, err := filepath.Abs(filepath.Join(checkout, "out/rooms"))
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	config := bwrap.Config{Binary: bwrap.DefaultBinary, Rooms: rooms, RunDir: openDir(t), Worker: "filter"}
	if strace != "" {
		config.Binary = straceOf(t, strace, bwrap.DefaultBinary, dir)
	}
	rt, err := bwrap.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	spec := filterSpec(t, c, artifact)
	out, err := rt.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if out.Status == nil {
		t.Fatalf("no status: %+v, stderr %s", out.Result, out.StderrTail)
	}
	if strace == "" {
		return *out.Status, out.Stdout, nil
	}
	return *out.Status, out.Stdout, readTrace(t, dir)
}

func writeFilterReport(t *testing.T, report filterReport) {
	t.Helper()
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(checkout, "out/filter-report.json")
	if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range report.Cases {
		t.Logf("%s: %d calls, status %d, refused: %v", name, c.Calls, c.Status, c.Refused)
	}
}

// sameAnswer compares exit statuses and answers, apart from what is new in
// each run: ids, times, durations, and the order that threads finish in.
func sameAnswer(status int, stdout []byte, otherStatus int, other []byte) bool {
	return status == otherStatus && slices.Equal(normalized(stdout), normalized(other))
}

const filterTimeout = 10 * time.Minute

var filterLimits = func() wire.Limits {
	l := wire.DefaultLimits()
	l.AddressSpaceMB = wire.AddressSpaceOff
	return l
}()
