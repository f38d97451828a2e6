package main

import (
	"os"
	"os/exec"
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
