package agent

import "time"

// Options is what differs between the agent as a program and as a library.
type Options struct {
	// WorkDir is the run's own directory, an absolute path. Everything in it
	// belongs to the run.
	WorkDir string
	// Home and Path are the scanner's whole environment: HOME and PATH.
	Home, Path string
	// Namespace says that this process is meant to be pid 1 of a pid
	// namespace of its own, where it ends every other process. It is ignored
	// where the pid says otherwise.
	Namespace bool
	// Environ is the environment that the agent was started with. Only a
	// probe looks at it.
	Environ []string
	// GateBound is how long a run without network waits for its wall before
	// it is given up; zero means DefaultGateBound.
	GateBound time.Duration
}

// DefaultGateBound is longer than any network policy was seen to need.
const DefaultGateBound = 15 * time.Second
