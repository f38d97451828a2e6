package main

import (
	"os/signal"
	"syscall"
)

// ignoreBrokenPipes makes a write to a pipe without reader an error. Go ends
// the process otherwise when the pipe is stdout or stderr.
func ignoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }
