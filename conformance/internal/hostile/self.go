package main

import (
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// self is this program's path, by which its children can be told from others.
func self() string {
	name, err := os.Executable()
	if err != nil {
		return "/proc/self/exe"
	}
	return name
}

// runSelf runs a program (often this one) and returns what it printed.
func runSelf(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// stay is what some attempts are about: being there for a while.
func stay(d time.Duration) { <-time.After(d) }

// linksOf is the number of names of a file; its type differs by architecture.
func linksOf(st *unix.Stat_t) uint64 {
	return uint64(st.Nlink) //nolint:unconvert // 32 bits wide on arm64
}
