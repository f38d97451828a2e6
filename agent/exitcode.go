package agent

// ExitCode is what the agent ends with. Zero says that a result was stored and
// nothing about what is in it.
type ExitCode int

// The exit codes of the agent.
const (
	// ExitStored: a result was stored, whatever the scanner came to.
	ExitStored ExitCode = 0
	// ExitUsage: argv is not exactly --in <url> --out <url>.
	ExitUsage ExitCode = 64
	// ExitManifest: there is no manifest, or none that can be answered.
	ExitManifest ExitCode = 65
	// ExitStore: the result could not be stored.
	ExitStore ExitCode = 66
	// ExitInternal: the agent itself failed, and stored nothing.
	ExitInternal ExitCode = 67
	// ExitCancelled: the caller's context ended first (library only).
	ExitCancelled ExitCode = 68
)

// String names the code.
func (c ExitCode) String() string {
	switch c {
	case ExitStored:
		return "a result was stored"
	case ExitUsage:
		return "usage"
	case ExitManifest:
		return "no usable manifest"
	case ExitStore:
		return "the result could not be stored"
	case ExitInternal:
		return "internal failure"
	case ExitCancelled:
		return "cancelled"
	}
	return "unknown exit code"
}
