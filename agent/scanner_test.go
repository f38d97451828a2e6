package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// facts is what a scanner sees of itself.
type facts struct {
	Args      []string
	Env       []string
	Dir       string
	Stdin     string
	FDs       []string
	Session   bool // it leads a session of its own
	Ignored   string
	Blocked   string
	Seccomp   string
	NoNew     string
	Soft      map[string]uint64
	Hard      map[string]uint64
	TempMode  string
	Manifest  bool
	InputsDir bool
}

// scanner does what a test's scanner is asked to do and returns its status.
func scanner(verb string, args []string) int {
	verbs := map[string]func([]string) int{
		"facts": printFacts, "exit": exitWith, "signal": signalSelf, "hang": hang, "flood": flood,
		"daemon": daemon, "linger": linger, "close": closeStdout, "burn": burn, "plant": plant, "cat": cat,
		"bystander": bystander, "stop-keeper": stopKeeper, "fill": fill, "grow": grow,
	}
	do, ok := verbs[verb]
	if !ok {
		fmt.Fprintf(os.Stderr, "no verb %q\n", verb)
		return 125
	}
	return do(args)
}

var resources = map[string]int{
	"as": unix.RLIMIT_AS, "cpu": unix.RLIMIT_CPU, "core": unix.RLIMIT_CORE,
	"fsize": unix.RLIMIT_FSIZE, "nproc": unix.RLIMIT_NPROC, "nofile": unix.RLIMIT_NOFILE,
}

func printFacts([]string) int {
	stdin, _ := io.ReadAll(os.Stdin)
	dir, _ := os.Getwd()
	sid, _ := unix.Getsid(0)
	f := facts{
		Args: os.Args, Env: os.Environ(), Dir: dir, Stdin: string(stdin), Session: sid == os.Getpid(),
		Ignored: statusLine("SigIgn"), Blocked: statusLine("SigBlk"), Seccomp: statusLine("Seccomp"), NoNew: statusLine("NoNewPrivs"),
		Soft: map[string]uint64{}, Hard: map[string]uint64{},
	}
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			f.FDs = append(f.FDs, fd.Name()+" "+target)
		}
	}
	for name, resource := range resources {
		var l unix.Rlimit
		if err := unix.Prlimit(0, resource, nil, &l); err == nil {
			f.Soft[name], f.Hard[name] = l.Cur, l.Max
		}
	}
	if info, err := os.Stat("tmp"); err == nil {
		f.TempMode = info.Mode().String()
	}
	_, err := os.Lstat("manifest.json")
	f.Manifest = err == nil
	_, err = os.Lstat("in")
	f.InputsDir = err == nil
	if json.NewEncoder(os.Stdout).Encode(f) != nil {
		return 1
	}
	return 0
}

func statusLine(name string) string {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func exitWith(args []string) int {
	fmt.Fprintln(os.Stdout, "said on stdout")
	fmt.Fprintln(os.Stderr, "said on stderr")
	return number(args, 0)
}

func number(args []string, i int) int {
	n, err := strconv.Atoi(args[i])
	if err != nil {
		panic(err)
	}
	return n
}

func signalSelf(args []string) int {
	// The runtime handles most signals; the kernel's default is wanted.
	_ = unix.Kill(os.Getpid(), unix.Signal(number(args, 0)))
	return forever()
}

// forever waits for a signal that ends it.
func forever() int {
	for {
		_ = unix.Pause()
	}
}

func hang([]string) int {
	fmt.Fprintln(os.Stdout, "hanging")
	return forever()
}

// flood prints args[1] bytes to the stream args[0] and exits.
func flood(args []string) int {
	to, left := map[string]*os.File{"stdout": os.Stdout, "stderr": os.Stderr}[args[0]], number(args, 1)
	line := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for left > 0 {
		n, err := to.Write(line[:min(left, len(line))])
		if left -= n; err != nil {
			return 1
		}
	}
	return 0
}

// daemon leaves a process behind that has a session of its own, holds stdout
// and would outlive everything; it prints its pid.
func daemon([]string) int {
	cmd := exec.Command("/proc/self/exe", scannerMark, "linger")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, cmd.Process.Pid)
	return 0
}

func linger([]string) int {
	return forever()
}

func bystander([]string) int {
	fmt.Fprintln(os.Stdout, "ready")
	return forever()
}

// closeStdout closes both streams long before it exits.
func closeStdout([]string) int {
	fmt.Fprintln(os.Stdout, "before")
	os.Stdout.Close()
	os.Stderr.Close()
	// A child's whole life passes before the exit.
	_ = exec.Command("/proc/self/exe", scannerMark, "exit", "0").Run()
	return 7
}

func burn([]string) int {
	for n := 0; ; n++ {
		runtime.KeepAlive(n)
	}
}

func cat(args []string) int {
	for _, name := range args {
		b, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		info, _ := os.Lstat(name)
		fmt.Fprintf(os.Stdout, "%s %s %q\n", name, info.Mode(), b)
	}
	return 0
}

// plant puts something where the result goes.
func plant(args []string) int {
	var err error
	switch args[0] {
	case "file":
		err = os.WriteFile("out.tar", []byte("forged"), 0o444)
	case "symlink":
		err = os.Symlink(args[1], "out.tar")
	case "directory":
		for i := range 200 {
			dir := fmt.Sprintf("out.tar/%d", i)
			err = os.MkdirAll(dir, 0o755)
			_ = os.WriteFile(dir+"/file", nil, 0o000)
			_ = os.Chmod(dir, 0)
		}
		_ = os.Chmod("out.tar", 0)
	case "no-rights":
		err = os.Chmod(".", 0o500)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fill writes until there is no space left.
func fill([]string) int {
	f, err := os.OpenFile("filler", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 1
	}
	b := make([]byte, 64<<10)
	for size := len(b); size > 0; {
		if _, err := f.Write(b[:size]); err != nil {
			size /= 2
		}
	}
	return 3
}

// grow writes a file of args[0] MiB.
func grow(args []string) int {
	f, err := os.OpenFile("grown", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 1
	}
	b := make([]byte, 1<<20)
	for range number(args, 0) {
		if _, err := f.Write(b); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 4
		}
	}
	return 0
}

// stopKeeper stops its parent and then hangs.
func stopKeeper([]string) int {
	_ = unix.Kill(os.Getppid(), unix.SIGSTOP)
	return forever()
}
