package seccomp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

// A filter can't be taken off again, so whatever wants one runs in this test
// program started again under one of these names.
var stages = map[string]func(args []string) error{
	"stage-exec":     stageExec,
	"stage-refusals": stageRefusals,
	"stage-threads":  stageThreads,
	"stage-no-nnp":   stageWithoutNoNewPrivs,
}

func TestMain(m *testing.M) {
	if stage, ok := stages[os.Args[0]]; ok {
		if err := stage(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// underStage is a command that runs this test program as a stage.
func underStage(ctx context.Context, t *testing.T, stage string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Args[0] = stage
	return cmd
}

func install() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	return seccomp.Install()
}

// stageExec puts the filter on itself and becomes the program in args.
func stageExec(args []string) error {
	runtime.LockOSThread()
	if err := install(); err != nil {
		return err
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// refusal is one call with the arguments that a rule refuses, or lets pass.
type refusal struct {
	Name   string
	Number uint32
	Args   [6]uint64
	Want   uint32
}

// stageRefusals makes the calls that args[0] lists and prints what came back.
func stageRefusals(args []string) error {
	var list []refusal
	if err := json.Unmarshal([]byte(args[0]), &list); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := install(); err != nil {
		return err
	}
	// unshare(0) does nothing. If it succeeds there is no filter, and some
	// of the calls below would really happen.
	if err := unix.Unshare(0); err == nil {
		return errors.New("there is no filter: unshare(0) succeeded")
	} else if !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("there is no filter: unshare(0) answered %w", err)
	}
	got := make([]uint32, len(list))
	for i, r := range list {
		_, _, errno := unix.RawSyscall6(uintptr(r.Number), uintptr(r.Args[0]), uintptr(r.Args[1]), uintptr(r.Args[2]),
			uintptr(r.Args[3]), uintptr(r.Args[4]), uintptr(r.Args[5]))
		got[i] = uint32(errno)
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// stageThreads installs the filter with other threads running and prints the
// modes that the kernel shows for all of them.
func stageThreads([]string) error {
	started, done := make(chan struct{}), make(chan struct{})
	defer close(done)
	for range 4 {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			<-done
		}()
	}
	for range 4 {
		<-started
	}
	if err := install(); err != nil {
		return err
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		status, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "Seccomp:") {
				fmt.Print(line)
			}
		}
	}
	return nil
}

// stageWithoutNoNewPrivs installs the filter as nobody in particular without
// no_new_privs, and prints the error.
func stageWithoutNoNewPrivs([]string) error {
	runtime.LockOSThread()
	if os.Geteuid() == 0 {
		if err := syscall.Setresuid(65534, 65534, 65534); err != nil {
			return err
		}
	}
	fmt.Println(seccomp.Install())
	return nil
}
