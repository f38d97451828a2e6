package agent

import (
	"crypto/x509"
	"time"
)

// Release is this build's release, set by the linker. It is reported in every
// result.
var Release = "dev"

// Options is what differs between the agent as a program and as a library.
type Options struct {
	// WorkDir is the run's own directory, an absolute path. Everything in it
	// belongs to the run, and the agent may remove all of it.
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
	// Roots are the certificate authorities for https; nil means the room's
	// own, and the compiled-in ones where it has none.
	Roots *x509.CertPool

	// step is told each step as it begins; tests record it, and break one.
	step func(string)
}

// DefaultGateBound is longer than any network policy was seen to need.
const DefaultGateBound = 15 * time.Second

func (o Options) gateBound() time.Duration {
	if o.GateBound == 0 {
		return DefaultGateBound
	}
	return o.GateBound
}
