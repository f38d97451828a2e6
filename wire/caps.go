package wire

// Version is the wire version this build speaks. A manifest of any other
// version is refused by the agent, and a result of any other by the worker.
const Version = 1

// The caps bound what either side reads, in bytes unless the name says
// otherwise. They are part of the wire version: changing one is a new version.
const (
	// ManifestCap bounds manifest.json, inline entries included.
	ManifestCap = 16 << 20
	// InlineCap bounds the sum of a manifest's inline entries once decoded.
	InlineCap = 8 << 20
	// StdoutCap bounds what a scanner may print to stdout. One byte more is an
	// output error, never a truncated answer.
	StdoutCap = 16 << 20
	// StderrTailCap is how much of the end of a scanner's stderr is kept.
	StderrTailCap = 8 << 10
	// ResultJSONCap bounds result.json inside the result tar.
	ResultJSONCap = 1 << 20
	// ResultTarCap bounds out.tar: both members at their caps, their headers
	// and tar's end marker. Padding to a signed length never passes it.
	ResultTarCap = ResultJSONCap + StdoutCap + 4*tarBlock + 2*tarBlock

	// EntryCountCap bounds the entries of one manifest.
	EntryCountCap = 64
	// ArgvCountCap and ArgvBytesCap bound a scanner's argv, the second one
	// summed over all arguments.
	ArgvCountCap = 1024
	ArgvBytesCap = 128 << 10
	// CanaryCountCap bounds the canaries of one manifest.
	CanaryCountCap = 16
	// CommandCountCap bounds the commands a probe is asked to look for.
	CommandCountCap = 32
	// URLCap bounds one URL; presigned URLs are well under 4 KiB.
	URLCap = 8 << 10
	// NameCap bounds label parts, rule names and other short strings.
	NameCap = 253
	// DetailCap bounds one sentence of explanation.
	DetailCap = 4 << 10
	// NoteCountCap is how many deviations of an extraction are named in the
	// result; the counters go on counting after it.
	NoteCountCap = 100
	// PathBytesCap and PathDepthCap bound a RelPath: Linux's PATH_MAX less
	// room for the work directory in front of it, and a depth that no package
	// needs but that a walk can still afford.
	PathBytesCap = 4000
	PathDepthCap = 255
	// NameBytesCap bounds one path component, as every Linux file system does.
	NameBytesCap = 255

	tarBlock = 512
)
