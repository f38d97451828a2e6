package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The hint is a command: with the program's real place in it, it builds the
// room that was missing.
func TestTheHintForAMissingRoomBuildsIt(t *testing.T) {
	needBwrap(t)
	rooms, dir := runDir(t), runDir(t)
	config := put(t, "c.toml", []byte("[scanners.tool]\ncommand = \"tool\"\nargs = [\"echo\"]\nfindings = \"status\"\n"))
	r := sandboxctl(t, nil, "probe", "--config", config, "--rooms", rooms, "--run-dir", dir)
	hint := regexp.MustCompile(`\(build it: sandboxctl (tree .*) \(or --image ARCHIVE\)\)`).FindStringSubmatch(r.stderr)
	if r.status != ExitFailed || hint == nil {
		t.Fatalf("status %d, no hint in %q", r.status, r.stderr)
	}
	args := strings.Fields(strings.Replace(hint[1], "PATH/TO/tool", built(t, "tool"), 1))
	if r := sandboxctl(t, nil, args...); r.status != ExitClean {
		t.Fatalf("%q: status %d, %q", args, r.status, r.stderr)
	}
	if r := sandboxctl(t, nil, "probe", "--config", config, "--rooms", rooms, "--run-dir", dir); r.status != ExitClean {
		t.Errorf("the built room: status %d, %q", r.status, r.stderr)
	}
	// A room that is there is not what to build.
	if r := sandboxctl(t, nil, "run", "--room", "other", "--rooms", rooms, "--run-dir", dir, "--", "x"); r.status != ExitRunFailed ||
		!strings.Contains(r.stderr, "sandboxctl tree other --rooms "+rooms+" --file PATH/TO/PROGRAM") {
		t.Errorf("run: status %d, %q", r.status, r.stderr)
	}
}

// The words are the command line's, whatever the packages below call things.
func TestTreeRefusesInTheWordsOfItsFlags(t *testing.T) {
	file := put(t, "scanner", []byte("#!/bin/sh\n"))
	for args, want := range map[string]string{
		"--output OUT --file /work/x=FILE --force":        "/work/x would not be seen",
		"--output OUT --file FILE --command scanner":      "/usr/local/bin/scanner is not executable",
		"--output TAKEN --file FILE":                      "no room and is not replaced",
		"--output TAKEN --file FILE --force":              "no room and is not replaced",
		"--output OUT --file /usr/local/bin=FILE":         "is a directory of the room",
		"--output OUT --file /bin/x=/bin/cat --command x": "--libraries",
	} {
		taken := runDir(t)
		if err := os.WriteFile(filepath.Join(taken, "thesis.txt"), []byte("years"), 0o600); err != nil {
			t.Fatal(err)
		}
		out := runDir(t) + "/room"
		r := sandboxctl(t, nil, append([]string{"tree"}, strings.Fields(strings.NewReplacer("OUT", out, "TAKEN", taken, "FILE", file).Replace(args))...)...)
		if r.status != ExitFailed || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "Options") {
			t.Errorf("%s: status %d, %q, want %q", args, r.status, r.stderr, want)
		}
		if got := names(t, taken); len(got) != 1 {
			t.Errorf("%s: the files became %q", args, got)
		}
	}
}
