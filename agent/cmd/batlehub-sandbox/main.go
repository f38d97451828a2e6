// Command batlehub-sandbox is the one program that is put inside every
// sandbox. Its argv is exactly
//
//	batlehub-sandbox --in <url> --out <url>
//
// It reads no configuration, no environment and no stdin, and prints nothing.
// Its exit status is an agent.ExitCode.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/batleforc/batlehub-sandbox/agent"
)

// Inside, these are the same everywhere.
const (
	workDir = "/work"
	path    = "/usr/local/bin:/usr/bin:/bin"
)

// The agent shares its memory wall with the scanner and lives on little: the
// collector runs often, and harder as the heap nears the limit.
const (
	gcPercent   = 50
	memoryLimit = 16 << 20
)

func main() {
	environ := os.Environ() //nolint:forbidigo // for a probe, which asserts that there is nothing
	// Whatever in the standard library would look at the environment finds
	// nothing there. Only a probe is told what there was.
	os.Clearenv()
	debug.SetTraceback("none")
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	in, out, ok := arguments(os.Args)
	if !ok {
		os.Exit(int(agent.ExitUsage))
	}
	if err := harden(); err != nil {
		os.Exit(int(agent.ExitInternal))
	}
	os.Exit(int(agent.Run(context.Background(), in, out, agent.Options{
		WorkDir: workDir, Home: workDir, Path: path, Namespace: true, Environ: environ,
	})))
}
