package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

// TestMain lets this test binary be the program: it is run again with a verb.
func TestMain(m *testing.M) {
	if os.Getenv("HOSTILE_VERB") == "" {
		os.Exit(m.Run())
	}
	os.Args = append([]string{"hostile"}, strings.Split(os.Getenv("HOSTILE_VERB"), " ")...)
	main()
}

func try(t *testing.T, verb string) attempt.Report {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOSTILE_VERB="+verb)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	r, err := attempt.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestThereIsAVerbForEachAttempt(t *testing.T) {
	if len(verbs) < 40 {
		t.Errorf("%d verbs, want at least 40", len(verbs))
	}
}

// The suite names verbs as text, because it can't import a program.
func TestEveryVerbThatTheSuiteNamesIsThere(t *testing.T) {
	pattern := regexp.MustCompile(`(?:verb: |HostileSpec\(|Hostile\(|forged\()"([a-z0-9-]+)"`)
	files, err := filepath.Glob("../../*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pattern.FindAllStringSubmatch(string(b), -1) {
			named[m[1]] = true
		}
	}
	if len(named) < 40 {
		t.Errorf("the suite names %d verbs", len(named))
	}
	for verb := range named {
		if verbs[verb] == nil {
			t.Errorf("the suite names %q, which is no verb", verb)
		}
	}
}

func TestAnAttemptWithoutWallsIsSeenToSucceed(t *testing.T) {
	for _, verb := range []string{"process-vm-agent", "threads", "docker-personality"} {
		if r := try(t, verb); r.Verb == "" || !r.Achieved {
			t.Errorf("%s: %+v", verb, r)
		}
	}
}

func TestATreeIsListedAsItIs(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(cmd.Dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cmd.Dir, "d", "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("d/f", filepath.Join(cmd.Dir, "l")); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "HOSTILE_VERB=tree")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := attempt.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range r.Nodes {
		got = append(got, n.Type+" "+n.Path+" "+n.Target)
	}
	if want := "dir d |file d/f |symlink l d/f"; strings.Join(got, "|") != want {
		t.Errorf("listed %q", got)
	}
}

func TestSignalsAreSentToNobodyButPidOne(t *testing.T) {
	// The parent is this test: had a real signal been sent, it would be gone.
	if r := try(t, "signal-agent"); !r.Achieved || !strings.Contains(r.Detail, "is no pid 1") {
		t.Errorf("%+v", r)
	}
}

func TestWithoutAVerbItSaysWhichThereAre(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOSTILE_VERB=no-such-verb")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "unshare-user") {
		t.Errorf("%v: %s", err, out)
	}
}
