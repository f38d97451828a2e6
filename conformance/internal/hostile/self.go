package main

import (
	"os"
	"os/exec"
)

// runSelf runs a program (often this one) and returns what it printed.
func runSelf(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}
