package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestAWrongCommandLineIsOneLineAndStatusTwo(t *testing.T) {
	artifact := put(t, "a.tgz", tgz(t, entry{"a", "a"}))
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "sandboxctl: a command is missing; sandboxctl --help lists them"},
		{"scann", `sandboxctl: unknown command "scann"; did you mean "scan"?`},
		{"agent", `sandboxctl: unknown command "agent"; sandboxctl --help lists them`},
		{"scan", "sandboxctl: the artifact is missing; usage: sandboxctl scan ARTIFACT [flags]"},
		{"scan a b", `sandboxctl: unexpected argument "b"; usage: sandboxctl scan ARTIFACT [flags]`},
		{"scan --skip-probe a", "sandboxctl: unknown flag: --skip-probe; sandboxctl scan --help lists the flags"},
		{"scan --format xml a", `sandboxctl: --format "xml" is not known; one of table, json`},
		{"scan " + artifact, "sandboxctl: no scanner is configured; add a [scanners.<name>] table, or name one of gitleaks, guarddog, postmortem, trivy with --scanner"},
		{"scan --scanner nope " + artifact, `sandboxctl: there is no scanner "nope"; add [scanners.nope] to the configuration, or name one of gitleaks, guarddog, postmortem, trivy`},
		{"scan --scanner gitleaks --scanner gitleaks " + artifact, `sandboxctl: scanner "gitleaks" is named twice`},
		{"scan --scanner gitleaks --purl x " + artifact, `sandboxctl: --purl: "x" is not a package URL with a version, want one like pkg:npm/left-pad@1.3.0`},
		{"scan --scanner gitleaks --runtime kubernetes " + artifact, "sandboxctl: --runtime: the kubernetes runtime moves bundles through the storage backend and [storage] declares none; add a [storage.backends.<name>] with an S3-compatible backend"},
		{"scan --config /nonexistent.toml " + artifact, "sandboxctl: no configuration file at /nonexistent.toml; check --config"},
		{"scan --scanner gitleaks --runtime none " + artifact, "sandboxctl: sandbox none: refused (unsafe): this runtime has no walls and was not asked for by name; choose another runtime, or set BATLEHUB_UNSAFE_NO_SANDBOX=1 to scan hostile files without a sandbox"},
		{"run", "sandboxctl: the command is missing; usage: sandboxctl run [flags] -- COMMAND [ARG]…"},
		{"run --room x --file a -- b", `sandboxctl: --file "a", want PATH=FILE`},
		{"run --room x --file ../a=b -- b", `sandboxctl: --file "../a=b": invalid relative path "../a": it has a ".." component`},
		{"run --room x --archive tmp=b -- b", `sandboxctl: --archive "tmp=b": path "tmp" is reserved`},
		{"run --room ../x -- b", `sandboxctl: --room: invalid label: scanner is "../x", want 1 to 63 of a-z 0-9 - _ . between letters or digits`},
		{"run -- b", `sandboxctl: --room is missing: runtime "bwrap" runs a command in the room of a scanner, one of /opt/sandbox`},
		{"run --room x --timeout 0s -- b", "sandboxctl: --timeout is 0s, want one between 1ms and 24h"},
		{"run --room x --memory-mb 1 -- b", "sandboxctl: --memory-mb is 1, want 16 to 1073741824"},
		{"run --room x --memory-mb 0 -- b", "sandboxctl: --memory-mb is 0, want 16 to 1073741824"},
		{"run --room x --memory-mb 1073741825 -- b", "sandboxctl: --memory-mb is 1073741825, want 16 to 1073741824"},
		{"run --room x --cpu-seconds 86401 -- b", "sandboxctl: --cpu-seconds is 86401, want 1 to 86400"},
		{"run --room x --file-mb -1 -- b", "sandboxctl: --file-mb is -1, want 1 to 1073741824"},
		{"run --room x --address-space-mb 0 -- b", "sandboxctl: --address-space-mb is 0, want at least 1, or -1 for no limit"},
		{"run --room x --address-space-mb -2 -- b", "sandboxctl: --address-space-mb is -2, want -1 to 1073741824"},
		{"probe --scanner gitleaks --runtime oci --image Scanner", `sandboxctl: --image: image "Scanner" is not an image's name: invalid reference format: repository name (library/Scanner) must be lowercase; want registry/name@sha256:…, or an image id as sha256:…`},
		{"tree", "sandboxctl: the scanner's name (or --output) is missing; usage: sandboxctl tree [SCANNER] [flags]"},
		{"tree x", "sandboxctl: nothing to build the room from; give --file, --dir or --image"},
		{"tree ../x --file a", `sandboxctl: the scanner's name: invalid label: scanner is "../x", want 1 to 63 of a-z 0-9 - _ . between letters or digits`},
		{"tree x --file a=b", `sandboxctl: "a=b": want FILE, or PLACE=FILE with an absolute place in the room, as in /usr/bin/x=./x`},
		{"tree x --agent /nonexistent --file b", "sandboxctl: --agent: /nonexistent: no such file or directory"},
		{"probe --scanner osv --config " + put(t, "c.toml", []byte("[scanners.osv]\ntype = \"osv\"\n")), `sandboxctl: scanner "osv" makes calls of its own and runs in no sandbox, so it is not scanned with here`},
		{"worker x", `sandboxctl: unexpected argument "x"; usage: sandboxctl worker [flags]`},
		{"scan --scanner gitleaks ''", "sandboxctl: the artifact's name is empty; usage: sandboxctl scan ARTIFACT [flags]"},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.Trim(args[i], "'")
		}
		r := sandboxctl(t, nil, args...)
		if r.status != ExitUsage || r.stdout != "" || r.stderr != c.want+"\n" {
			t.Errorf("%s: status %d, stdout %q\ngot  %swant %s", c.args, r.status, r.stdout, r.stderr, c.want)
		}
	}
}

func TestARefusedConfigurationIsOneLineWithItsPlaceAndStatusTwo(t *testing.T) {
	file := put(t, "c.toml", []byte("[scanners.guarddog]\ncommand = \"guarddog\"\nimage = \"x\"\n"))
	for _, verb := range []string{"scan x", "probe", "doctor", "worker", "run --room x -- y", "tree x --file y"} {
		r := sandboxctl(t, nil, append(strings.Fields(verb)[:1], append([]string{"--config", file}, strings.Fields(verb)[1:]...)...)...)
		want := "sandboxctl: " + file + ":3: image on scanner 'guarddog' has no effect under runtime 'bwrap'; it is read by the oci and kubernetes runtimes\n"
		if r.status != ExitUsage || r.stdout != "" || r.stderr != want {
			t.Errorf("%s: status %d, %q, want %q", verb, r.status, r.stderr, want)
		}
	}
}

// No program of the worker's runs inside a sandbox, so there is no command for
// that, and none is hidden.
func TestTheCommandsAreTheseAndNoneRunsInsideASandbox(t *testing.T) {
	var got []string
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		got = append(got, c.Name())
		if c.Hidden {
			t.Errorf("%s is hidden", c.Name())
		}
	}
	slices.Sort(got)
	if want := []string{"completion", "doctor", "help", "network", "probe", "record", "run", "scan", "tree", "version", "worker"}; !slices.Equal(got, want) {
		t.Errorf("commands %v, want %v", got, want)
	}
}

// There is no way around the probe but a runtime that has none, which asks for
// a variable that says what it is.
func TestNoFlagSkipsTheProbe(t *testing.T) {
	names := map[string][]string{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		for _, set := range []interface{ FlagUsages() string }{c.LocalFlags(), c.PersistentFlags()} {
			for line := range strings.Lines(set.FlagUsages()) {
				if i := strings.Index(line, "--"); i >= 0 {
					name, _, _ := strings.Cut(line[i+2:], " ")
					names[c.Name()] = append(names[c.Name()], strings.TrimSpace(name))
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
	if len(names["scan"]) == 0 {
		t.Fatal("no flags were found")
	}
	for command, flags := range names {
		for _, flag := range flags {
			for _, word := range []string{"skip", "probe", "unsafe", "insecure", "force-run", "no-"} {
				if strings.Contains(flag, word) && flag != "no-descriptions" {
					t.Errorf("%s has --%s", command, flag)
				}
			}
		}
	}
}

func TestVersionHelpAndCompletionsGoToStdoutAlone(t *testing.T) {
	for _, args := range []string{"version", "--help", "scan --help", "run --help", "completion bash", "completion zsh", "completion fish", "completion powershell"} {
		r := sandboxctl(t, nil, strings.Fields(args)...)
		if r.status != 0 || r.stdout == "" || r.stderr != "" {
			t.Errorf("%s: status %d, %d bytes, stderr %q", args, r.status, len(r.stdout), r.stderr)
		}
	}
}

func TestTheHelpNamesEveryStatus(t *testing.T) {
	r := sandboxctl(t, nil, "--help")
	for _, status := range []string{"0 clean", "1 findings", "2 wrong", "3 no answer", "4 the artifact", "129, 130 and 143"} {
		if !strings.Contains(r.stdout, status) {
			t.Errorf("the help does not name %q", status)
		}
	}
}

// With fewer than seven the language's own runtime does not come up: a library's
// start asks it for random numbers.
func TestTooFewDescriptorsAreOneLineAndNoAnswer(t *testing.T) {
	for _, limit := range []string{"7", "8", "20"} {
		for _, verb := range []string{"version", "doctor", "scan --scanner gitleaks x"} {
			cmd := command(t.Context(), t, nil)
			script := "ulimit -n " + limit + "; exec " + cmd.Path + " " + verb
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			_ = cmd.Run()
			if cmd.ProcessState.ExitCode() != ExitFailed || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "ulimit -n") {
				t.Errorf("ulimit -n %s, %s: status %d, %q", limit, verb, cmd.ProcessState.ExitCode(), stderr.String())
			}
		}
	}
}

func TestAFullDiskUnderStdoutIsAnErrorAndNoSuccess(t *testing.T) {
	for _, args := range []string{"version", "doctor"} {
		cmd := command(t.Context(), t, nil, args)
		cmd.Stdout = devFull(t)
		if err := cmd.Run(); err == nil {
			t.Errorf("%s wrote to a full disk and was content", args)
		}
	}
}
