package probe

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// environment: HOME and PATH with the values that the agent was built with,
// and nothing else but what a runtime can't help.
func (p *probe) environment(context.Context) (wire.Outcome, string) {
	seen := make(map[string]bool)
	var extra []string
	for _, entry := range p.Environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "HOME" && value == p.Home && !seen[name]:
		case name == "PATH" && value == p.Path && !seen[name]:
		case name == "PWD" && value == p.WorkDir && !seen[name]:
			// bwrap sets PWD behind --clearenv, and no flag of its prevents it. It
			// says what getcwd says. The scanner does not get it.
		case name == "HOSTNAME" && value == p.Nodename && !seen[name]:
			// podman sets it whatever it is asked to leave out (seen with
			// --unsetenv-all, --unsetenv HOSTNAME and --env-host=false on
			// 4.3.1). It says what uname says. The scanner does not get it.
		case p.request.KubernetesEnv && (strings.HasPrefix(name, "KUBERNETES_SERVICE_") || strings.HasPrefix(name, "KUBERNETES_PORT")):
		case name == "HOME" || name == "PATH" || name == "PWD" || name == "HOSTNAME":
			extra = append(extra, name+" twice or of another value")
		default:
			extra = append(extra, name)
		}
		seen[name] = true
	}
	names := slices.Sorted(keys(seen))
	switch {
	case len(extra) > 0:
		return fail("the environment also holds %s", strings.Join(extra, ", "))
	case !seen["HOME"] || !seen["PATH"]:
		return fail("the environment holds only %q, want HOME and PATH", names)
	}
	return pass("the environment holds %s", strings.Join(names, ", "))
}

func keys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// tunable is writable for the machine's uid 0 and for nobody else, whatever
// its capabilities and whatever it is called in a user namespace. bwrap
// started by root is the machine's root under another name.
const tunable = "sys/kernel/core_pattern"

// unprivileged: no uid of this process is 0, here or outside, and no
// capability can be had.
func (p *probe) unprivileged(context.Context) (wire.Outcome, string) {
	if p.EUID == 0 {
		return fail("the effective uid is 0")
	}
	status, err := readStatus(filepath.Join(p.Proc, "self/status"))
	if err != nil {
		return fail("reading the process's status: %v", plain(err))
	}
	if slices.Contains(strings.Fields(status["Uid"]), "0") {
		return fail("one of the uids is 0: %s", status["Uid"])
	}
	for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb"} {
		value, ok := status[set]
		switch {
		case !ok || value == "":
			return fail("the kernel does not show %s", set)
		case strings.Trim(value, "0") != "":
			return fail("%s is %s, want no capability", set, value)
		}
	}
	// Without a privileged program to execute, the bounding set gives nothing
	// to anybody. But an engine that was told to give capabilities, or not to
	// take any away, gives none to a uid that is not 0, and only this shows.
	if bounding, ok := status["CapBnd"]; !ok || strings.Trim(bounding, "0") != "" {
		return fail("the bounding set is %q, want an empty one: the sandbox was started with capabilities to give", bounding)
	}
	if p.Writable(filepath.Join(p.Proc, tunable)) {
		return fail("uid %d here is the machine's uid 0: it may write /proc/%s", p.EUID, tunable)
	}
	return pass("uid %d, no capability, and none in the bounding set", p.EUID)
}

func readStatus(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	status := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	return status, nil
}

// tokens are where a kubelet puts a service account's token.
var tokens = []string{
	"/var/run/secrets/kubernetes.io/serviceaccount/token",
	"/run/secrets/kubernetes.io/serviceaccount/token",
}

// credentials: no token in the room, no credential in the environment.
func (p *probe) credentials(context.Context) (wire.Outcome, string) {
	for _, token := range tokens {
		_, err := os.Lstat(p.in(token))
		switch {
		case err == nil:
			return fail("%s exists", token)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return fail("looking for %s: %v", token, plain(err))
		}
	}
	for _, entry := range p.Environ {
		name, _, _ := strings.Cut(entry, "=")
		if name == "DATABASE_URL" || strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "BATLEHUB_") {
			return fail("the environment holds %s", name)
		}
	}
	return pass("no service account token, no DATABASE_URL, AWS_* or BATLEHUB_*")
}

// hostPIDs is the name of a machine's first pid namespace; its inode number
// is part of the kernel's interface.
const hostPIDs = "pid:[4026531836]"

// pidNamespace: this process is pid 1, or a child of pid 1 in a namespace that
// is not the machine's own. A parent of 0 is one outside the namespace: then
// pid 1 is somebody else's process.
func (p *probe) pidNamespace(context.Context) (wire.Outcome, string) {
	name, err := os.Readlink(filepath.Join(p.Proc, "self/ns/pid"))
	switch {
	case p.PID == 1:
		return pass("pid 1")
	case p.PPID != 1:
		return fail("pid %d, a child of pid %d: other processes are in this pid namespace", p.PID, p.PPID)
	case err == nil && name == hostPIDs:
		return fail("pid %d, a child of the machine's own pid 1", p.PID)
	}
	return pass("pid %d, a child of pid 1", p.PID)
}
