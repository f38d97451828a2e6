package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Every file that is named to sandboxctl may turn out to be something that
// never ends.
func TestNoFileThatNeverEndsHoldsACommandUp(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	artifact := put(t, "a.tgz", tgz(t, entry{"a", "a"}))
	plain := put(t, "c.toml", nil)
	for _, endless := range []string{fifo, "/dev/zero", t.TempDir()} {
		for args, status := range map[string]int{
			"scan --scanner gitleaks --config ENDLESS ARTIFACT":                ExitUsage,
			"doctor --config PLAIN --config ENDLESS":                           ExitUsage,
			"scan --scanner trivy --sbom ENDLESS ARTIFACT":                     ExitUsage,
			"scan --scanner gitleaks ENDLESS":                                  ExitFailed,
			"run --runtime none --file a=ENDLESS -- true":                      ExitRunFailed,
			"run --runtime none --archive a=ARTIFACT --file b=ENDLESS -- true": ExitRunFailed,
			"tree --output ROOM --agent ENDLESS --file ARTIFACT":               ExitFailed,
		} {
			room := filepath.Join(t.TempDir(), "room")
			args = strings.NewReplacer("ENDLESS", endless, "ARTIFACT", artifact, "PLAIN", plain, "ROOM", room).Replace(args)
			r := sandboxctl(t, []string{unsafeEnv}, strings.Fields(args)...)
			if r.status != status || r.took > 10*time.Second || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "not a regular file") {
				t.Errorf("%s: status %d, want %d, after %s: %q", args, r.status, status, r.took, r.stderr)
			}
		}
	}
}

// A read or a write can be stuck where no context reaches it.
func TestASignalEndsACommandThatIsStuck(t *testing.T) {
	for sig, status := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
			t.Fatal(err)
		}
		cmd := command(t.Context(), t, nil, "completion", "bash")
		cmd.Stdout = write
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(5*time.Second, func() bool {
			n, err := unix.IoctlGetInt(int(read.Fd()), unix.TIOCINQ)
			return err != nil || n >= 4096
		})
		begun := time.Now()
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		read.Close()
		write.Close()
		if got := cmd.ProcessState.ExitCode(); got != status || time.Since(begun) > 5*time.Second {
			t.Errorf("%s: status %d after %s", sig, got, time.Since(begun))
		}
	}
}

// What has something to clean up gets the time that takes, and no more.
func TestACommandIsWaitedForWhileItCleansUp(t *testing.T) {
	for busy, want := range map[int32]bool{0: false, 1: true} {
		a := &app{}
		a.busy.Store(busy)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&signalError{syscall.SIGTERM})
		cleaned := errors.New("cleaned up")
		root := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
			<-time.After(idlePatience + time.Second)
			return cleaned
		}}
		root.SetArgs(nil)
		if err := a.execute(ctx, nil, root); errors.Is(err, cleaned) != want {
			t.Errorf("busy %d: got %v", busy, err)
		}
	}
}
