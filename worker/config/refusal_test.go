package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// refusal is a configuration that breaks one rule, and the whole message that it
// gets behind "config.toml".
type refusal struct{ name, text, want string }

// refusals has one for each rule that holds for every runtime.
var refusals = []refusal{
	{"an unknown runtime", "[worker.sandbox]\nruntime = \"docker\"", `:2: runtime "docker" is not known; one of none, bwrap, oci, kubernetes, crun`},
	{"a runtime with a slip", "[worker.sandbox]\nruntime = \"bwarp\"", `:2: runtime "bwarp" is not known; did you mean "bwrap"? one of none, bwrap, oci, kubernetes, crun`},
	{"remote", "[worker.sandbox]\nruntime = \"remote\"", `:2: runtime "remote" is not supported (a daemon that sandboxes for others is not built); one of none, bwrap, oci, kubernetes, crun`},
	{"systemd-run", "[worker.sandbox]\nruntime = \"systemd-run\"", `:2: runtime "systemd-run" is not supported (it needs root or the same user namespaces); one of none, bwrap, oci, kubernetes, crun`},
	{"microvm", "[worker.sandbox]\nruntime = \"microvm\"", `:2: runtime "microvm" is not supported (on Kubernetes a runtime class does this); one of none, bwrap, oci, kubernetes, crun`},
	{"wasm", "[worker.sandbox]\nruntime = \"wasm\"", `:2: runtime "wasm" is not supported (the scanners are no WASI modules); one of none, bwrap, oci, kubernetes, crun`},
	{"nsjail", "[worker.sandbox]\nruntime = \"nsjail\"", `:2: runtime "nsjail" is not supported (it needs what bwrap needs); one of none, bwrap, oci, kubernetes, crun`},
	{"an image under bwrap", "[scanners.guarddog]\ncommand = \"guarddog\"\nimage = \"x\"", `:3: image on scanner 'guarddog' has no effect under runtime 'bwrap'; it is read by the oci and kubernetes runtimes`},
	{"an image under none", "[worker.sandbox]\nruntime = \"none\"\n[scanners.guarddog]\nimage = \"x\"", `:4: image on scanner 'guarddog' has no effect under runtime 'none'; it is read by the oci and kubernetes runtimes`},
	{"a key with a slip", "[worker.sandbox]\nmemory_limit = 1", `:2: unknown key "memory_limit" in [worker.sandbox]; did you mean "memory_limit_mb"?`},
	{"a swapped letter", "[worker.sandbox]\n\n\ncpu_secnods = 1", `:4: unknown key "cpu_secnods" in [worker.sandbox]; did you mean "cpu_seconds"?`},
	{"a table with a slip", "[worker.sandbx]\nruntime = \"none\"", `:1: unknown key "sandbx" in [worker]; did you mean "sandbox"?`},
	{"a top table with a slip", "[scaners.x]\ncommand = \"x\"", `:1: unknown key "scaners" at the top of the file; did you mean "scanners"?`},
	{"a top key that is far from all", "quux = 1", `:1: unknown key "quux" at the top of the file; known here: worker, scanners, storage`},
	{"a key far from all", "[worker.sandbox.bwrap]\nzzz = 1", `:2: unknown key "zzz" in [worker.sandbox.bwrap]; known here: binary, rooms`},
	{"a key of another runtime's table", "[worker.sandbox.oci]\nengin = \"podman\"", `:2: unknown key "engin" in [worker.sandbox.oci]; did you mean "engine"?`},
	{"a scanner's key with a slip", "[scanners.x]\ncomand = \"x\"", `:2: unknown key "comand" in [scanners.x]; did you mean "command"?`},
	{"a layout's key with a slip", "[scanners.x]\ncommand = \"x\"\nlayout = { pth = \"a\" }", `:3: unknown key "pth" in [scanners.x.layout]; did you mean "path"?`},
	{"a key that would skip the probe", "[worker.sandbox]\nskip_probe = true", `:2: unknown key "skip_probe" in [worker.sandbox]; known here: runtime, memory_limit_mb, cpu_seconds, max_artifact_mb, max_extracted_mb, max_entries, start_timeout_secs, probe_interval_secs, bundle_backend, bundle_prefix, bundle_ttl_secs, run_dir, bwrap, oci, kubernetes, crun`},
	{"a string for a number", "[worker.sandbox]\ncpu_seconds = \"300\"", `:2: worker.sandbox.cpu_seconds is the string "300", want an integer`},
	{"a float for a number", "[worker.sandbox]\ncpu_seconds = 1.5", `:2: worker.sandbox.cpu_seconds is the float 1.5, want an integer`},
	{"a number out of range", "[worker.sandbox]\nmemory_limit_mb = 0", `:2: worker.sandbox.memory_limit_mb is 0, want 16 to 1073741824`},
	{"a probe interval of none", "[worker.sandbox]\nprobe_interval_secs = 0", `:2: worker.sandbox.probe_interval_secs is 0, want 1 to 86400`},
	{"a number for a string", "[worker.sandbox]\nruntime = 1", `:2: worker.sandbox.runtime is the number 1, want a string`},
	{"a string for a boolean", "[scanners.x]\nnetwork = \"yes\"", `:2: scanners.x.network is the string "yes", want a boolean`},
	{"a string for a list", "[scanners.x]\nargs = \"a b\"", `:2: scanners.x.args is the string "a b", want an array of strings`},
	{"a mixed list", "[scanners.x]\nargs = [\"a\", 1]", `:2: scanners.x.args is an array, want an array of strings`},
	{"a value for a table", "scanners = 1", `:1: scanners is the number 1, want a table`},
	{"a scanner that is no table", "[scanners]\nx = \"y\"", `:2: scanners.x is the string "y", want a table [scanners.<name>] with at least a command`},
	{"a scanner's name", "[scanners.\"../x\"]\ncommand = \"x\"", `:1: scanner name "../x", want 1 to 63 of a-z 0-9 - _ . between letters or digits: it names the room too`},
	{"an empty command", "[scanners.x]\ncommand = \"\"", `:2: the command of scanner 'x' is empty; name the scanner's program`},
	{"a timeout without unit", "[scanners.x]\ncommand = \"x\"\ntimeout = \"5\"", `:3: scanners.x.timeout: "5" is not a duration, want one like "90s" or "5m"`},
	{"a timeout of a week", "[scanners.x]\ncommand = \"x\"\ntimeout = \"168h\"", `:3: scanners.x.timeout: 168h0m0s, want one between 1ms and 24h`},
	{"two timeouts", "[scanners.x]\ntimeout = \"5m\"\ntimeout_secs = 1", `:3: both timeout and timeout_secs are set on scanner 'x'; keep timeout`},
	{"no address space", "[scanners.x]\naddress_space_mb = 0", `:2: address_space_mb is 0, want at least 1, or -1 for no limit`},
	{"an unknown layout", "[scanners.x]\nlayout = \"tree\"", `:2: layout "tree" of scanner 'x' is not known; one of archive, file, none`},
	{"a layout that leaves the work directory", "[scanners.x]\nlayout = { path = \"../x\" }", `:2: layout path of scanner 'x': invalid relative path "../x": it has a ".." component`},
	{"a layout on a reserved name", "[scanners.x]\nlayout = { path = \"tmp/x\" }", `:2: layout path of scanner 'x': "tmp" is reserved`},
	{"a nested entry without a place", "[scanners.x]\nlayout = { nested = [{ member = \"a\" }] }", `:2: layout.nested has an entry that is not { member = "…", into = "…" }`},
	{"an inline file that is no text", "[scanners.x]\nlayout = { files = { \"a\" = 1 } }", `:2: layout.files "a" is the number 1, want its content as a string`},
	{"a placeholder with a slip", "[scanners.x]\ncommand = \"x\"\nargs = [\"-r\", \"--in={artefact}\"]", `:3: args[1] of scanner 'x' has the unknown placeholder "{artefact}"; did you mean "{artifact}"?`},
	{"a placeholder in capitals", "[scanners.x]\nargs = [\"{Artifact}\"]", `:2: args[0] of scanner 'x' has the unknown placeholder "{Artifact}"; did you mean "{artifact}"?`},
	{"a placeholder with spaces", "[scanners.x]\nargs = [\"{ artifact }\"]", `:2: args[0] of scanner 'x' has the unknown placeholder "{ artifact }"; did you mean "{artifact}"?`},
	{"a placeholder far from all", "[scanners.x]\nargs = [\"{artifact}\", \"{checksum}\"]", `:2: args[1] of scanner 'x' has the unknown placeholder "{checksum}"; known are {artifact}, {work}, {name}, {version}, {ecosystem}`},
	{"an argument with a NUL", "[scanners.x]\nargs = [\"a\\u0000b\"]", `:2: args[0] of scanner 'x' has a NUL byte, which no argument can`},
	{"a command with a NUL", "[scanners.x]\ncommand = \"a\\u0000b\"", `:2: the command of scanner 'x' is "a\x00b", which has a control character; want a name looked up on the room's PATH, or an absolute path in the room`},
	{"a command that climbs", "[scanners.x]\ncommand = \"../../x\"", `:2: the command of scanner 'x' is "../../x", which depends on a working directory that belongs to the artifact; want a name looked up on the room's PATH, or an absolute path in the room`},
	{"a command of the artifact's", "[scanners.x]\ncommand = \"artifact/x\"", `:2: the command of scanner 'x' is "artifact/x", which depends on a working directory that belongs to the artifact; want a name looked up on the room's PATH, or an absolute path in the room`},
	{"a command that winds", "[scanners.x]\ncommand = \"/usr/../x\"", `:2: the command of scanner 'x' is "/usr/../x", which has a superfluous part; want a name looked up on the room's PATH, or an absolute path in the room`},
	{"a directory for a command", "[scanners.x]\ncommand = \"..\"", `:2: the command of scanner 'x' is "..", which is a directory; want a name looked up on the room's PATH, or an absolute path in the room`},
	{"an unknown engine", "[worker.sandbox.oci]\nengine = \"nerdctl\"", `:2: engine "nerdctl" is not known; one of podman, docker`},
	{"an unknown transport", "[worker.sandbox.oci]\ntransport = \"ftp\"", `:2: transport "ftp" is not known; one of mount, storage`},
	{"rooms from nowhere", "[worker.sandbox.bwrap]\nrooms = \"rooms\"", `:2: worker.sandbox.bwrap.rooms = "rooms" is relative, and would be another place wherever the worker is started; write the path from the root`},
	{"runs in the working directory", "[worker.sandbox]\nrun_dir = \".\"", `:2: worker.sandbox.run_dir = "." is relative, and would be another place wherever the worker is started; write the path from the root`},
	{"a bwrap of the working directory's", "[worker.sandbox.bwrap]\nbinary = \"./bwrap\"", `:2: worker.sandbox.bwrap.binary = "./bwrap" is relative, and would be another place wherever the worker is started; write the path from the root`},
	{"an engine of a directory below", "[worker.sandbox]\nruntime = \"oci\"\n[worker.sandbox.oci]\nbinary = \"bin/podman\"", `:4: worker.sandbox.oci.binary = "bin/podman" is relative, and would be another place wherever the worker is started; write the path from the root`},
	{"certificates from nowhere", "[worker.sandbox]\nruntime = \"oci\"\n[worker.sandbox.oci]\ntransport = \"storage\"\n[storage.backends.a]\ntype = \"s3\"\nbucket = \"bundles\"\nca_file = \"ca.pem\"", `:8: storage.backends.a.ca_file = "ca.pem" is relative, and would be another place wherever the worker is started; write the path from the root`},
	{"a cluster from nowhere", "[worker.sandbox]\nruntime = \"kubernetes\"\n[worker.sandbox.kubernetes]\nkubeconfig = \"config\"", `:4: worker.sandbox.kubernetes.kubeconfig = "config" is relative, and would be another place wherever the worker is started; write the path from the root`},
	{"an empty bwrap", "[worker.sandbox.bwrap]\nbinary = \"\"", `:2: worker.sandbox.bwrap.binary is empty; leave the key out for the default`},
	{"a prefix without slash", "[worker.sandbox]\nbundle_prefix = \"sandbox\"", `:2: bundle_prefix "sandbox" does not end in a slash; want one path segment with a trailing slash, such as "sandbox/"`},
	{"a prefix of two segments", "[worker.sandbox]\nbundle_prefix = \"a/b/\"", `:2: bundle_prefix "a/b/" has more than one segment; want one path segment with a trailing slash, such as "sandbox/"`},
	{"a rooted prefix", "[worker.sandbox]\nbundle_prefix = \"/a/\"", `:2: bundle_prefix "/a/" has more than one segment; want one path segment with a trailing slash, such as "sandbox/"`},
	{"no prefix", "[worker.sandbox]\nbundle_prefix = \"\"", `:2: bundle_prefix "" does not end in a slash; want one path segment with a trailing slash, such as "sandbox/"`},
	{"a bare slash", "[worker.sandbox]\nbundle_prefix = \"/\"", `:2: bundle_prefix "/" has no name before the slash; want one path segment with a trailing slash, such as "sandbox/"`},
	{"the blobs' prefix", "[worker.sandbox]\nbundle_prefix = \"blob/\"", `:2: bundle_prefix "blob/" is where the storage keeps its blobs; want one path segment with a trailing slash, such as "sandbox/"`},
	{"the artifacts' prefix", "[worker.sandbox]\nbundle_prefix = \"artifact:x/\"", `:2: bundle_prefix "artifact:x/" begins with the reserved "artifact:"; want one path segment with a trailing slash, such as "sandbox/"`},
	{"the local prefix", "[worker.sandbox]\nbundle_prefix = \"local:/\"", `:2: bundle_prefix "local:/" begins with the reserved "local:"; want one path segment with a trailing slash, such as "sandbox/"`},
	{"the metadata's prefix", "[worker.sandbox]\nbundle_prefix = \"meta:a/\"", `:2: bundle_prefix "meta:a/" begins with the reserved "meta:"; want one path segment with a trailing slash, such as "sandbox/"`},
}

func TestEachRefusalSaysWhatWhereAndWhatToDoInOneLine(t *testing.T) { checkRefusals(t, refusals) }

// checkRefusals loads each configuration, and compares the message that it gets.
func checkRefusals(t *testing.T, refusals []refusal) {
	t.Helper()
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			file := write(t, "config.toml", r.text+"\n")
			_, err := Load(file)
			if err == nil {
				t.Fatal("it loaded")
			}
			if got := strings.TrimPrefix(err.Error(), file); got != r.want {
				t.Errorf("got  %s\nwant %s", got, r.want)
			}
			if !IsConfig(err) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "SECRETWORD") {
				t.Errorf("%#v is not one line of an *Error, or names a secret", err)
			}
		})
	}
}

func TestTomlThatDoesNotParseIsRefusedWithItsLine(t *testing.T) {
	for text, line := range map[string]string{
		"[worker\n":                        ":1: not valid TOML: ",
		"a = 1\na = 2\n":                   ": not valid TOML: ",
		"x = \"\n":                         ":1: not valid TOML: ",
		"[worker.sandbox]\nruntime = \xff": ":2: not valid TOML: ",
	} {
		file := write(t, "config.toml", text)
		_, err := Load(file)
		if err == nil || !strings.Contains(err.Error(), line) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want it to contain %q in one line", text, err, line)
		}
	}
}

func TestAFileThatCantBeReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "no.toml")); err == nil || !strings.HasPrefix(err.Error(), "no configuration file at "+dir) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("directory: %v", err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fifo, "/dev/zero"} {
		if _, err := Load(name); err == nil || !IsConfig(err) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	big := filepath.Join(dir, "big.toml")
	if err := os.WriteFile(big, make([]byte, fileCap+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(big); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("big: %v", err)
	}
}

// Whatever a file holds, the answer is a configuration or one line.
func FuzzLoad(f *testing.F) {
	for _, r := range refusals {
		f.Add(r.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := Load(write(t, "config.toml", text))
		if err != nil && (!IsConfig(err) || strings.ContainsAny(err.Error(), "\n\r\x1b")) {
			t.Errorf("%q: %#v", text, err)
		}
	})
}
