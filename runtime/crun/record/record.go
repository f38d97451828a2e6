// Package record turns a traced run into a scanner's own seccomp profile: what
// the agent and the scanner called is allowed, on the conditions of the profile
// of all scanners; what they called in vain is refused as it was; and any other
// call ends the process.
package record

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/crun/seccomp"
)

// always are what a program may call at any time without having done so in one
// run: a Go program, as the agent is, when its collector, its scheduler or a
// timer is at work, and every program when it is stopped and goes on.
var always = []string{
	"clone", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_wait", "eventfd2", "exit", "exit_group", "futex",
	"getpid", "gettid", "madvise", "mmap", "mprotect", "munmap", "nanosleep", "pipe2", "read", "restart_syscall",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_yield", "sigaltstack", "tgkill", "write",
}

// call is the beginning of a line of strace -f -o: a pid and a call's name.
var call = regexp.MustCompile(`^\d+\s+([a-z][a-z0-9_]*)\(`)

// Calls are the names of the system calls in what strace -f -o has written,
// sorted, from the execve of program on: what came before is the OCI runtime's
// own. It is an error if program was never executed.
func Calls(trace io.Reader, program string) ([]string, error) {
	names := make(map[string]bool)
	started := false
	lines := bufio.NewReaderSize(trace, lineCap)
	for {
		line, err := readLine(lines)
		if m := call.FindSubmatch(line); m != nil {
			started = started || string(m[1]) == "execve" && bytes.Contains(line, []byte(`execve("`+program+`"`))
			name, err := named(string(m[1]))
			switch {
			case started && err != nil:
				return nil, err
			case started:
				names[name] = true
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the trace: %w", err)
		}
	}
	if !started {
		return nil, fmt.Errorf("the trace has no execve of %s", program)
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// lineCap is how much of a line is looked at. What counts is its beginning; how
// much of a call's arguments is behind that is the traced program's to say.
const lineCap = 64 << 10

// readLine is the beginning of the next line, all of which it reads.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	line = bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return line, err
}

// newer are calls that an older strace knows by their number alone, which is
// the same for every architecture.
var newer = map[string]string{
	"syscall_0x1c2": "set_mempolicy_home_node",
	"syscall_0x1c3": "cachestat",
	"syscall_0x1c4": "fchmodat2",
	"syscall_0x1c5": "map_shadow_stack",
	"syscall_0x1c6": "futex_wake",
	"syscall_0x1c7": "futex_wait",
	"syscall_0x1c8": "futex_requeue",
	"syscall_0x1c9": "statmount",
	"syscall_0x1ca": "listmount",
	"syscall_0x1cb": "lsm_get_self_attr",
	"syscall_0x1cc": "lsm_set_self_attr",
	"syscall_0x1cd": "lsm_list_modules",
	"syscall_0x1ce": "mseal",
	"syscall_0x1cf": "setxattrat",
	"syscall_0x1d0": "getxattrat",
	"syscall_0x1d1": "listxattrat",
	"syscall_0x1d2": "removexattrat",
	"syscall_0x1d3": "open_tree_attr",
	"syscall_0x1d4": "file_getattr",
	"syscall_0x1d5": "file_setattr",
}

// named is a call's name, where strace knew only its number.
func named(call string) (string, error) {
	if !strings.HasPrefix(call, "syscall_0x") {
		return call, nil
	}
	if name, ok := newer[call]; ok {
		return name, nil
	}
	return "", fmt.Errorf("the trace has the call %s, which has no name here; a newer strace may know it", call)
}

// Profile is the profile for a program that makes these calls. It allows none
// that the profile of all scanners doesn't.
func Profile(calls []string, arch string) (*specs.LinuxSeccomp, error) {
	all, err := seccomp.Profile(arch)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool)
	for _, name := range slices.Concat(calls, always) {
		wanted[name] = true
	}
	p := &specs.LinuxSeccomp{DefaultAction: specs.ActKillProcess, Architectures: all.Architectures[:1]}
	allowed := make(map[string]bool)
	for _, rule := range all.Syscalls {
		if rule.Action != specs.ActAllow {
			continue
		}
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return !wanted[name] })
		for _, name := range rule.Names {
			allowed[name] = true
		}
		if len(rule.Names) > 0 {
			p.Syscalls = append(p.Syscalls, rule)
		}
	}
	refused := slices.DeleteFunc(slices.Clone(calls), func(name string) bool { return allowed[name] })
	if len(refused) > 0 {
		errno := uint(unix.ENOSYS)
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: refused, Action: specs.ActErrno, ErrnoRet: &errno})
	}
	return p, nil
}

// Encode is the profile as a file, and the digest that pins it.
func Encode(p *specs.LinuxSeccomp) (b []byte, pin string, err error) {
	if b, err = json.MarshalIndent(p, "", "  "); err != nil {
		return nil, "", fmt.Errorf("encoding the profile: %w", err)
	}
	b = append(b, '\n')
	sum := sha256.Sum256(b)
	return b, "sha256:" + hex.EncodeToString(sum[:]), nil
}
