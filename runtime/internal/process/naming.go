package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// maxLooks bounds one KillRun over processes that go on making others.
const maxLooks = 20

// KillRun kills what is left of a run whose owner is dead, and says whether
// there was anything. The run is known by its work directory, whose path is
// that of a run's directory and a last name: the first is random and never
// used twice.
//
// A bwrap whose parent is killed dies with it, but not always the child that
// it has just made: that one waits for a word from the dead
// (https://github.com/containers/bubblewrap/issues/198), or has not yet asked
// to die with it and goes on.
//
// One look is not enough: a process may make a child behind the look's back
// and be dead when its turn comes. That child is there for the second look.
func KillRun(work string) bool {
	found := false
	for looks, quiet := 0, 0; looks < maxLooks && quiet < 2; looks++ {
		if killSeen(work) {
			found, quiet = true, 0
		} else {
			quiet++
		}
	}
	return found
}

// killSeen kills the processes of a run that one look at all of them finds.
func killSeen(work string) bool {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return false
	}
	here, _ := os.Readlink("/proc/self/ns/mnt")
	found := false
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil || pid == os.Getpid() {
			continue
		}
		line := block(pid, "cmdline")
		if isBwrap(line, work) || isUnwalled(pid, work) || isInside(pid, here, work) {
			found = killOne(pid, line) || found
		}
	}
	return found
}

// isBwrap reports whether a command line is that of the run's bwrap, or of the
// child that it makes the sandbox in: the work directory is an argument.
func isBwrap(line []byte, work string) bool {
	return bytes.Contains(line, []byte("\x00--die-with-parent\x00")) && bytes.Contains(line, []byte("\x00"+work+"\x00"))
}

// isUnwalled reports whether pid is a scanner of the run without walls, whose
// HOME the work directory is.
func isUnwalled(pid int, work string) bool {
	return bytes.Contains(block(pid, "environ"), []byte("\x00HOME="+work+"\x00"))
}

// isInside reports whether the work directory is what pid sees at /work: pid is
// then inside the run's sandbox. Mounts are told relative to the root of their
// file system, so the ends of the paths are compared. Whoever has this process's
// own mounts, here, is in no sandbox, and there may be thousands.
func isInside(pid int, here, work string) bool {
	if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err == nil && ns == here {
		return false
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return false
	}
	defer f.Close()
	mounts, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return false
	}
	end := "/" + filepath.Join(filepath.Base(filepath.Dir(work)), filepath.Base(work))
	return slices.ContainsFunc(mounts, func(m *mountinfo.Info) bool {
		return m.Mountpoint == "/work" && strings.HasSuffix(strings.TrimSuffix(m.Root, "//deleted"), end)
	})
}

// killOne kills the process, if it is still the one with that command line.
func killOne(pid int, line []byte) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written through it
	if !bytes.Equal(block(pid, "cmdline"), line) {
		return false
	}
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	awaitExit(fd, time.Now().Add(time.Second))
	return true
}

// block reads a file of NUL-terminated strings, bounded, with a NUL in front.
func block(pid int, name string) []byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 256<<10))
	if err != nil || len(b) == 0 {
		return nil
	}
	return append([]byte{0}, b...)
}
