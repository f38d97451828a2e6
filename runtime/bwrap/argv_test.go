package bwrap_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	argvConfig = bwrap.Config{Binary: "/usr/bin/bwrap", Rooms: "/opt/sandbox"}
	argvDirs   = bwrap.Dirs{Room: "/opt/sandbox/postmortem", Work: "/tmp/run/work"}
)

func TestTheBwrapArgvIsTheSandboxTheRFCDescribes(t *testing.T) {
	for name, network := range map[string]bool{"network-off": false, "network-on": true} {
		t.Run(name, func(t *testing.T) {
			argv := bwrap.Argv(argvConfig, sandbox.RunSpec{Network: network}, argvDirs)
			got := strings.Join(argv, "\n") + "\n"
			golden := filepath.Join("testdata", "argv-"+name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			wantLines := strings.Split(string(want), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(wantLines) || line != wantLines[i] {
					t.Fatalf("line %d is %q, want %q", i+1, line, append(wantLines, "")[min(i, len(wantLines))])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d bytes, want %d", len(got), len(want))
			}
		})
	}
}

func TestTheArgvDependsOnItsArgumentsAlone(t *testing.T) {
	first := bwrap.Argv(argvConfig, sandbox.RunSpec{Argv: []string{"scan"}}, argvDirs)
	t.Setenv("PATH", "/nowhere")
	t.Chdir("/")
	if second := bwrap.Argv(argvConfig, sandbox.RunSpec{Argv: []string{"other"}}, argvDirs); !slices.Equal(first, second) {
		t.Errorf("got %q, then %q", first, second)
	}
}

func TestTheHostsRootIsNeverARoom(t *testing.T) {
	for _, room := range []string{"/", "//", "/opt/..", "/.", "", ".", "opt/sandbox/scanner"} {
		if argv := bwrap.Argv(argvConfig, sandbox.RunSpec{}, bwrap.Dirs{Room: room, Work: "/tmp/run/work"}); argv != nil {
			t.Errorf("room %q gives %q", room, argv)
		}
	}
	for _, network := range []bool{false, true} {
		argv := bwrap.Argv(argvConfig, sandbox.RunSpec{Network: network}, argvDirs)
		for i, arg := range argv {
			if strings.HasSuffix(arg, "bind") && argv[i+1] == "/" {
				t.Errorf("%q", argv[i:i+3])
			}
		}
	}
}
