package probe

import (
	"context"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Room is what the probe looks at. Every path, system call and environment
// that an assertion rests on is a field, so that a test can break exactly one.
type Room struct {
	// WorkDir, Home and Path are what the agent was built with: its work
	// directory and the only values that HOME and PATH may have.
	WorkDir, Home, Path string
}

// Here returns the room that this process is in.
func Here(workDir, home, path string) Room {
	return Room{WorkDir: workDir, Home: home, Path: path}
}

// Run makes every assertion of wire.Assertions but AssertResult, in their order.
func Run(ctx context.Context, m *wire.Manifest, room Room) wire.ProbeResult {
	return wire.ProbeResult{}
}
