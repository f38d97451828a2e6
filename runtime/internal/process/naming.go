package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// KillRun kills what is left of a run whose owner is dead, and says whether
// there was anything. The run is known by its work directory, whose name is
// random and never used twice: a bwrap has it as an argument, and a scanner
// without walls as its HOME.
//
// A bwrap whose parent is killed dies with it, but not always the child that
// it has just made: that one waits for a word from the dead
// (https://github.com/containers/bubblewrap/issues/198).
func KillRun(work string) bool {
	argument := []byte("\x00" + work + "\x00")
	home := []byte("\x00HOME=" + work + "\x00")
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return false
	}
	found := false
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil || pid == os.Getpid() {
			continue
		}
		line := block(pid, "cmdline")
		bwrap := bytes.Contains(line, argument) && bytes.Contains(line, []byte("\x00--die-with-parent\x00"))
		if bwrap || bytes.Contains(block(pid, "environ"), home) {
			found = killOne(pid, line) || found
		}
	}
	return found
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
