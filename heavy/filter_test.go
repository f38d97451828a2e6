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
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
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
	// threads says that the program starts threads through glibc, which asks
	// for clone3 first: the one refusal that is known beforehand.
	threads bool
	// large says that the trace behind bwrap has to do for podman too, where
	// the answers alone are compared: a traced podman holds its store's locks
	// until the scanner ends, for everybody on the host.
	large bool
}

func filterCases() []filterCase {
	trivy := func(args ...string) []string {
		common := []string{
			"trivy", "fs", "--quiet", "--cache-dir", "/work/.trivy", "--skip-version-check", "--skip-db-update", "--skip-check-update", "--offline-scan",
		}
		return append(append(common, args...), "/work/artifact")
	}
	return []filterCase{
		{"gitleaks", "gitleaks", strings.Fields("gitleaks dir --no-banner --no-color --log-level error --report-format json --report-path - --exit-code 9 /work/artifact"), "private-key", false, false},
		{"yara", "yara", []string{"yara", "-r", "-s", "/usr/share/yara/install-scripts.yar", "/work/artifact"}, "decodes_and_executes", true, false},
		{"clamscan", "clamav", []string{"clamscan", "--database=/var/lib/clamav", "--no-summary", "-r", "/work/artifact"}, "BatleHub.Test.Marker", false, false},
		{"trivy secret,misconfig,license", "trivy", trivy("--format", "json", "--scanners", "secret,misconfig,license"), "WTFPL", false, true},
		{"trivy cyclonedx", "trivy", trivy("--format", "cyclonedx"), "pkg:npm/left-pad@1.3.0", false, true},
		{"syft", "syft", []string{"syft", "scan", "dir:/work/artifact", "-o", "cyclonedx-json", "-q"}, "left-pad", false, true},
	}
}

// filterReport is out/filter-report.json: what each scanner tried and the
// agent's filter refused, by runtime and case.
type filterReport struct {
	Kernel   string                              `json:"kernel"`
	Runtimes map[string]map[string]filterOutcome `json:"runtimes"`
	NotRun   map[string]string                   `json:"not_run"`
}

type filterOutcome struct {
	Status    int  `json:"status"`
	SameAsOff bool `json:"same_as_without_filter"`
	Traced    bool `json:"traced"`
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
	makeRooms(t)
	artifact := filterArtifact(t)
	table := filterTable(t)
	report := filterReport{Kernel: kernelRelease(t), Runtimes: map[string]map[string]filterOutcome{"bwrap": {}, "oci (podman)": {}}, NotRun: map[string]string{}}
	for _, c := range filterCases() {
		for name, outcomes := range report.Runtimes {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				if reason := notToBeHad(t, name, c.room); reason != "" {
					report.NotRun[c.name+", "+name] = reason
					t.Skip("not run: " + reason)
				}
				outcomes[c.name] = filterOutcomeOf(t, name, c, artifact, strace, table)
			})
		}
	}
	writeFilterReport(t, report)
}

func filterOutcomeOf(t *testing.T, runtime string, c filterCase, artifact, strace string, table map[string][]string) filterOutcome {
	t.Helper()
	status, stdout := withoutFilter(t, c, artifact)
	if !strings.Contains(string(stdout), c.wants) {
		t.Fatalf("the scanner found no %q: status %d: %s", c.wants, status, stdout)
	}
	plain, plainStdout, _ := underFilter(t, runtime, c, artifact, "")
	if c.large && runtime != "bwrap" {
		same := sameAnswer(status, stdout, plain, plainStdout)
		if !same {
			t.Errorf("without the filter: status %d\n%s\nwith it: status %d\n%s", status, stdout, plain, plainStdout)
		}
		return filterOutcome{Status: plain, SameAsOff: same, Traced: false}
	}
	traced, tracedStdout, calls := underFilter(t, runtime, c, artifact, strace)
	same := sameAnswer(status, stdout, plain, plainStdout) && sameAnswer(status, stdout, traced, tracedStdout)
	if !same {
		t.Errorf("without the filter: status %d\n%s\nwith it: status %d\n%s\ntraced: status %d", status, stdout, plain, plainStdout, traced)
	}
	found := calls.refusedBy(table)
	if c.threads && !slices.ContainsFunc(found, func(r refused) bool { return r.Call == "clone3" && r.Errno == "ENOSYS" }) {
		t.Errorf("glibc starts threads with clone3 and was refused %v: the trace does not see the filter", found)
	}
	return filterOutcome{Status: plain, SameAsOff: same, Traced: true, Calls: calls.count, Refused: found}
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

// makeRooms builds the images and trees that are missing, of the scanners whose
// programs are at hand: what takes many minutes to build is left to
// scripts/images.sh.
func makeRooms(t *testing.T) {
	t.Helper()
	for _, room := range []string{"gitleaks", "yara", "clamav", "trivy", "syft"} {
		if !atHand(t, room) || notToBeHad(t, "oci (podman)", room) == "" {
			continue
		}
		for _, engine := range []string{"podman", "docker"} {
			if engineCommand(t, engine, "info").Run() == nil {
				buildImages(t, engine, room)
				break
			}
		}
	}
}

func atHand(t *testing.T, room string) bool {
	t.Helper()
	if program := map[string]string{"yara": "yara", "clamav": "clamscan"}[room]; program != "" {
		_, err := exec.LookPath(program)
		return err == nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	built, err := filepath.Glob(filepath.Join(cache, "batlehub-sandbox/tools", room+"-*", room))
	if err != nil {
		t.Fatal(err)
	}
	return room == "gitleaks" || len(built) > 0 || os.Getenv(strings.ToUpper(room)) != ""
}

// notToBeHad says why a case can't be run with a runtime here.
func notToBeHad(t *testing.T, runtime, room string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(checkout, "out/rooms", room, "usr/local/bin/batlehub-sandbox")); err != nil {
		return fmt.Sprintf("no room out/rooms/%s; scripts/images.sh makes it", room)
	}
	if runtime == "bwrap" {
		return ""
	}
	if out, err := engineCommand(t, "podman", "info").CombinedOutput(); err != nil {
		return "podman does not work here: " + finalLine(out)
	}
	if _, err := os.Stat(filepath.Join(checkout, "out/images/podman", room+".json")); err != nil {
		return fmt.Sprintf("no image of %s; scripts/images.sh podman %s makes it", room, room)
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
	walls := []string{
		"--unshare-all", "--die-with-parent", "--ro-bind", room, "/", "--proc", "/proc", "--dev", "/dev", "--bind", work, "/work",
		"--clearenv", "--setenv", "HOME", "/work", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--chdir", "/work", "--",
	}
	cmd := exec.CommandContext(t.Context(), "bwrap", append(walls, c.argv...)...)
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
func underFilter(t *testing.T, runtime string, c filterCase, artifact, strace string) (int, []byte, *trace) {
	t.Helper()
	dir := openDir(t)
	binary := map[string]string{"bwrap": "bwrap", "oci (podman)": "podman"}[runtime]
	if strace != "" {
		binary = straceOf(t, strace, binary, dir)
	}
	spec := filterSpec(t, c, artifact)
	var rt sandbox.Runtime
	var err error
	if runtime == "bwrap" {
		var rooms string
		if rooms, err = filepath.Abs(filepath.Join(checkout, "out/rooms")); err != nil {
			t.Fatal(err)
		}
		rt, err = bwrap.New(bwrap.Config{Binary: binary, Rooms: rooms, RunDir: openDir(t), Worker: "filter"})
	} else {
		spec.Image = builtRecord(t, "podman", c.room).Reference
		rt, err = oci.New(oci.Config{Engine: oci.Podman, Binary: binary, RunDir: openDir(t), Worker: "filter", Env: placeOfEngines()})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
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

// placeOfEngines is what of the engines' environment says where they are.
func placeOfEngines() []string {
	var env []string
	for _, e := range engineEnv() {
		if name, _, _ := strings.Cut(e, "="); slices.Contains(oci.PassedOn, name) && name != "PATH" {
			env = append(env, e)
		}
	}
	return env
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
	for runtime, cases := range report.Runtimes {
		for name, c := range cases {
			t.Logf("%s, %s: %d calls, status %d, refused: %v", name, runtime, c.Calls, c.Status, c.Refused)
		}
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
