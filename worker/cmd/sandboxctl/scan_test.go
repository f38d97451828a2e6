package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/batleforc/batlehub-sandbox/worker/scan"
)

// both are the runtimes of this build, with the flags that choose them.
func both(t *testing.T, scanner, file string) map[string][]string {
	t.Helper()
	return map[string][]string{
		"bwrap": {"--rooms", testRoom(t, scanner, file)},
		"none":  {"--runtime", "none"},
	}
}

// gitleaksConfig names the scanner by its path on the host for none, and by
// its name in the room for bwrap.
func gitleaksConfig(t *testing.T, runtime string) string {
	t.Helper()
	name := "gitleaks"
	if runtime == "none" {
		name = gitleaks(t)
	}
	return put(t, "config.toml", fmt.Appendf(nil, "[scanners.gitleaks]\ncommand = %q\n", name))
}

func report(t *testing.T, r result) scan.Report {
	t.Helper()
	var report scan.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("status %d, stdout %q, stderr %q: %v", r.status, r.stdout, r.stderr, err)
	}
	return report
}

func planted(t *testing.T) []byte {
	t.Helper()
	return tgz(t, entry{"package/package.json", "{}"}, entry{"package/lib/a\x1b[31m.js", "key = \"" + secret() + "\"\n"},
		entry{"package/b.js", "k = '" + secret() + "' // gitleaks:allow\n"},
		entry{".gitleaks.toml", "[allowlist]\npaths = ['''.*''']\n"}, entry{"package/.gitleaks.toml", "[allowlist]\npaths = ['''.*''']\n"},
		entry{".gitleaksignore", "package/b.js:aws-access-token:1\nscan/artifact/package/b.js:aws-access-token:1\n/work/scan/artifact/package/b.js:aws-access-token:1\n"})
}

func TestTheSameFindingsComeWithAndWithoutWalls(t *testing.T) {
	artifacts := map[string]string{"planted.tgz": put(t, "planted.tgz", planted(t))}
	for _, module := range []string{"github.com/inconshreveable/mousetrap@v1.1.0", "github.com/knadh/koanf/maps@v0.1.2"} {
		if file := moduleZip(t, module); file != "" {
			artifacts[module] = file
		}
	}
	for name, artifact := range artifacts {
		found := map[string]scan.Report{}
		for runtime, flags := range both(t, "gitleaks", gitleaks(t)) {
			dir := runDir(t)
			r := sandboxctl(t, []string{unsafeEnv}, append(flags, "scan", "--config", gitleaksConfig(t, runtime), "--run-dir", dir, "--format", "json", artifact)...)
			if r.stderr != "" || r.status > ExitFindings {
				t.Errorf("%s on %s: status %d, stderr %q", name, runtime, r.status, r.stderr)
			}
			found[runtime] = report(t, r)
			if left := leftovers(t, dir); left != "" {
				t.Errorf("%s on %s left behind: %s", name, runtime, left)
			}
		}
		none, bwrap := found["none"].Scanners[0], found["bwrap"].Scanners[0]
		if !reflect.DeepEqual(none.Findings, bwrap.Findings) || none.Total != bwrap.Total {
			t.Errorf("%s: none %+v\nbwrap %+v", name, none.Findings, bwrap.Findings)
		}
		if !reflect.DeepEqual(none.Runs[0].Extraction, bwrap.Runs[0].Extraction) {
			t.Errorf("%s: none %+v\nbwrap %+v", name, none.Runs[0].Extraction, bwrap.Runs[0].Extraction)
		}
		if name == "planted.tgz" && none.Total != 2 {
			t.Errorf("%d findings in the planted package, want 2: %+v", none.Total, none.Findings)
		}
	}
}

// moduleZip is a module's zip in the module cache, where the build put it.
func moduleZip(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module).Output()
	var answer struct{ Zip string }
	if err != nil || json.Unmarshal(out, &answer) != nil || answer.Zip == "" {
		t.Logf("not run: %s can't be had: %v", module, err)
	}
	return answer.Zip
}

func TestTheStatusSaysCleanFindingsRefusedOrNoAnswer(t *testing.T) {
	for runtime, flags := range both(t, "gitleaks", gitleaks(t)) {
		for _, c := range []struct {
			name     string
			artifact []byte
			status   int
			stdout   string
		}{
			{"clean", tgz(t, entry{"package/a.js", "x"}), ExitClean, "verdict   clean"},
			{"findings", planted(t), ExitFindings, "scanner   gitleaks: 2 findings"},
			{"refused", tgz(t, entry{"../../x", "x"}), ExitRefused, "the artifact was refused"},
		} {
			r := sandboxctl(t, []string{unsafeEnv}, append(flags, "scan", "--config", gitleaksConfig(t, runtime), put(t, "a.tgz", c.artifact))...)
			if r.status != c.status || !strings.Contains(r.stdout, c.stdout) || r.stderr != "" {
				t.Errorf("%s on %s: status %d, stdout\n%sstderr %q", c.name, runtime, r.status, r.stdout, r.stderr)
			}
			if strings.Contains(r.stdout, "\x1b") {
				t.Errorf("%s on %s: an escape reached the terminal: %q", c.name, runtime, r.stdout)
			}
			if walls := strings.Contains(r.stdout, "holds        no-network"); walls != (runtime == "bwrap") {
				t.Errorf("%s on %s: walls shown %v\n%s", c.name, runtime, walls, r.stdout)
			}
		}
	}
}

func TestAScannerThatGivesNoAnswerIsNeverAClean(t *testing.T) {
	rooms := testRoom(t, "tool", built(t, "tool"))
	artifact := put(t, "a.tgz", tgz(t, entry{"a", "a"}))
	for name, c := range map[string]struct{ args, findings, want string }{
		"an odd status":          {`["exit", "7"]`, "status", "the scanner exited 7"},
		"not its format":         {`["echo", "hello"]`, "gitleaks", "not the JSON that was expected"},
		"nothing printed":        {`["echo"]`, "trivy", "it is empty"},
		"killed":                 {`["kill", "9"]`, "status", "SIGKILL"},
		"hanging":                {`["sleep", "1h"]`, "status", "run timeout"},
		"hanging and deaf":       {`["deaf", "1h"]`, "status", "run timeout"},
		"flooding":               {`["flood", "64"]`, "status", "stdout_cap"},
		"escapes on its stderr":  {`["exit", "9"]`, "status", `leaving\x1b[31m`},
		"leaving a daemon":       {`["daemon", "1h"]`, "trivy", "not the JSON that was expected"},
		"forging its own result": {`["forge"]`, "trivy", "not the JSON that was expected"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := runDir(t)
			timeout := "1m"
			if strings.HasPrefix(name, "hanging") {
				timeout = "2s"
			}
			config := put(t, "c.toml", fmt.Appendf(nil, "[scanners.tool]\ncommand = \"tool\"\nargs = %s\nfindings = %q\ntimeout = %q\n", c.args, c.findings, timeout))
			r := sandboxctl(t, nil, "scan", "--config", config, "--rooms", rooms, "--run-dir", dir, artifact)
			if r.status != ExitFailed || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "sandboxctl: could not scan: tool: ") ||
				!strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "\x1b") {
				t.Errorf("status %d, stderr %q, want %q", r.status, r.stderr, c.want)
			}
			if !strings.Contains(r.stdout, "NO ANSWER") || !strings.Contains(r.stdout, "verdict   failed") {
				t.Errorf("stdout\n%s", r.stdout)
			}
			if left := leftovers(t, dir); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

func TestAnArtifactThatCantBeOpenedIsOneLineAndNoAnswer(t *testing.T) {
	rooms := testRoom(t, "tool", built(t, "tool"))
	config := put(t, "c.toml", []byte("[scanners.tool]\ncommand = \"tool\"\n"))
	dir := t.TempDir()
	fifo, locked := filepath.Join(dir, "fifo"), filepath.Join(dir, "locked")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(locked, nil, 0); err != nil {
		t.Fatal(err)
	}
	artifacts := map[string]string{filepath.Join(dir, "none"): "no such file or directory", dir: "not a regular file", fifo: "not a regular file", "/dev/zero": "not a regular file"}
	if os.Geteuid() != 0 {
		artifacts[locked] = "permission denied"
	}
	for artifact, want := range artifacts {
		r := sandboxctl(t, nil, "scan", "--config", config, "--rooms", rooms, artifact)
		if r.status != ExitFailed || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", artifact, r.status, r.stdout, r.stderr)
		}
	}
}

// What is wrong with an artifact is an answer about it, with the rule's name.
func TestABrokenOrHostileArtifactIsRefusedByARule(t *testing.T) {
	whole := tgz(t, entry{"a", strings.Repeat("a\x00b", 5000)})
	artifacts := map[string][]byte{
		"empty":                     {},
		"unknown":                   []byte("this is no archive\n"),
		"truncated":                 whole[:len(whole)-20],
		"encrypted":                 encryptedZip(t),
		"100 GiB declared in a tar": declaredTar(t, 100<<30),
		"100 GiB declared in a zip": declaredZip(t, 100<<30),
		"a gzip of a hundred zeros": bomb(t),
	}
	for runtime, flags := range both(t, "tool", built(t, "tool")) {
		command := "tool"
		if runtime == "none" {
			command = built(t, "tool")
		}
		config := put(t, "c.toml", fmt.Appendf(nil, "[scanners.tool]\ncommand = %q\nargs = [\"echo\"]\n", command))
		for name, artifact := range artifacts {
			dir := runDir(t)
			r := sandboxctl(t, []string{unsafeEnv}, append(flags, "scan", "--config", config, "--run-dir", dir, "--format", "json", put(t, "x.tgz", artifact))...)
			got := report(t, r)
			if r.status != ExitRefused || r.stderr != "" || got.Verdict != scan.Refused || got.Scanners[0].Refusal == nil || got.Scanners[0].Refusal.Rule == "" {
				t.Errorf("%s on %s: status %d, stderr %q, %+v", name, runtime, r.status, r.stderr, got.Scanners)
			}
			if left := leftovers(t, dir); left != "" {
				t.Errorf("%s on %s left behind: %s", name, runtime, left)
			}
		}
	}
}

func TestTheConfiguredLimitsOfExtractionHoldInside(t *testing.T) {
	rooms := testRoom(t, "tool", built(t, "tool"))
	var many []entry
	for i := range 11 {
		many = append(many, entry{fmt.Sprintf("f%02d", i), "x"})
	}
	for name, c := range map[string]struct {
		artifact []byte
		status   int
	}{
		"ten entries":        {tgz(t, many[:10]...), ExitClean},
		"eleven entries":     {tgz(t, many...), ExitRefused},
		"a MiB":              {tgz(t, entry{"a", strings.Repeat("x", 1<<20)}), ExitClean},
		"a MiB and one byte": {tgz(t, entry{"a", strings.Repeat("x", 1<<20+1)}), ExitRefused},
	} {
		config := put(t, "c.toml", []byte("[worker.sandbox]\nmax_entries = 10\nmax_extracted_mb = 1\n[scanners.tool]\ncommand = \"tool\"\nargs = [\"echo\"]\n"))
		if r := sandboxctl(t, nil, "scan", "--config", config, "--rooms", rooms, put(t, "a.tgz", c.artifact)); r.status != c.status {
			t.Errorf("%s: status %d, want %d\n%s%s", name, r.status, c.status, r.stdout, r.stderr)
		}
	}
}

// A deployment's file of before the runtimes, and its bwrap under another name.
func TestAConfigurationOfTheOldShapeScansAsItIs(t *testing.T) {
	rooms := testRoom(t, "gitleaks", gitleaks(t))
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	renamed := filepath.Join(runDir(t), "my-bwrap")
	if err := os.Symlink(bwrap, renamed); err != nil {
		t.Fatal(err)
	}
	old := "[server]\nroles = [\"worker\"]\n[worker]\nmax_concurrent = 2\n[worker.sandbox]\nmemory_limit_mb = 4096\ncpu_seconds = 100\nmax_extracted_mb = 256\nmax_entries = 1000\n%s\n[scanners.osv]\ntype = \"osv\"\n[scanners.gitleaks]\ncommand = %q\n"
	for name, c := range map[string]struct{ text, command string }{
		"the default runtime": {"", "gitleaks"},
		"bwrap by its name":   {"runtime = \"bwrap\"", "gitleaks"},
		"a renamed bwrap":     {fmt.Sprintf("[worker.sandbox.bwrap]\nbinary = %q", renamed), "gitleaks"},
		"none":                {"runtime = \"none\"", gitleaks(t)},
	} {
		config := put(t, "config.toml", fmt.Appendf(nil, old, c.text, c.command))
		r := sandboxctl(t, []string{unsafeEnv}, "scan", "--config", config, "--rooms", rooms, put(t, "p.tgz", planted(t)))
		if r.status != ExitFindings || r.stderr != "" {
			t.Errorf("%s: status %d, stderr %q\n%s", name, r.status, r.stderr, r.stdout)
		}
	}
}

func encryptedZip(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "a", Flags: 1, Method: zip.Store})
	if err == nil {
		_, err = f.Write([]byte("0123456789abcdef"))
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func declaredTar(t *testing.T, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: size, Mode: 0o644, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), make([]byte, 10<<10)...)
}

func declaredZip(t *testing.T, size uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.CreateRaw(&zip.FileHeader{Name: "a", Method: zip.Deflate, CompressedSize64: 4, UncompressedSize64: size, CRC32: 1})
	if err == nil {
		_, err = f.Write([]byte{1, 2, 3, 4})
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bomb is a small file that unpacks to more than may be.
func bomb(t *testing.T) []byte {
	t.Helper()
	return tgz(t, entry{"zeros", strings.Repeat("\x00", 64<<20)})
}
