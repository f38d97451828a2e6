package config

import (
	"net/netip"
	"slices"
	"time"
)

// Config is a whole configuration, every default filled in.
type Config struct {
	Worker   Worker
	Scanners map[string]Scanner
	Storage  Storage
	// Images are those that are named for the chosen runtime's runs.
	Images []Image
	// Warnings name what was set and has no effect.
	Warnings []Warning
}

// Image is an image as the configuration names it.
type Image struct {
	Name string
	// Scanner is the scanner whose image it is, empty for the runtime's own.
	Scanner string
	// File and Line are where it is named, for messages.
	File string
	Line int
}

// Worker is [worker].
type Worker struct {
	MaxConcurrent  int64
	Registries     []string
	JobTimeoutSecs int64
	MaxAttempts    int64
	Sandbox        Sandbox
}

// Sandbox is [worker.sandbox].
type Sandbox struct {
	Runtime           string
	MemoryLimitMB     int64
	CPUSeconds        int64
	MaxArtifactMB     int64
	MaxExtractedMB    int64
	MaxEntries        int64
	StartTimeoutSecs  int64
	ProbeIntervalSecs int64
	BundleBackend     string
	BundlePrefix      string
	BundleTTLSecs     int64
	RunDir            string
	Bwrap             Bwrap
	OCI               OCI
	Kubernetes        Kubernetes
	Crun              Crun
}

// StartTimeout is StartTimeoutSecs as a duration.
func (s Sandbox) StartTimeout() time.Duration {
	return time.Duration(s.StartTimeoutSecs) * time.Second
}

// BundleTTL is BundleTTLSecs as a duration.
func (s Sandbox) BundleTTL() time.Duration { return time.Duration(s.BundleTTLSecs) * time.Second }

// Images says whether a run of this runtime is opened from an image.
func (s Sandbox) Images() bool { return slices.Contains(imageRuntimes, s.Runtime) }

// StorageHop says whether bundles travel through a storage backend.
func (s Sandbox) StorageHop() bool {
	return s.Runtime == "kubernetes" || s.Runtime == "oci" && s.OCI.Transport == "storage"
}

// Offline says that no run of this runtime can have a network.
func (s Sandbox) Offline() bool { return s.Runtime == "crun" }

// Pinned says that a room of this runtime is held to its pinned digest.
func (s Sandbox) Pinned() bool { return s.Runtime == "crun" }

// DefaultImage is the image of scanners that name none, as the chosen runtime's
// table has it.
func (s Sandbox) DefaultImage() string {
	if s.Runtime == "kubernetes" {
		return s.Kubernetes.Image
	}
	return s.OCI.Image
}

// OrphanAfter is the age past its deadline from which what any worker left is
// swept; 0 for runtimes that leave nothing.
func (s Sandbox) OrphanAfter() time.Duration {
	var seconds int64
	switch s.Runtime {
	case "oci":
		seconds = s.OCI.OrphanAfterSecs
	case "kubernetes":
		seconds = s.Kubernetes.OrphanAfterSecs
	case "crun":
		seconds = s.Crun.OrphanAfterSecs
	}
	return time.Duration(seconds) * time.Second
}

// memoryDir says that the work directory is memory and charged to the run.
func (s Sandbox) memoryDir() bool { return s.Images() || s.Runtime == "crun" }

// OCI is [worker.sandbox.oci].
type OCI struct {
	Engine      string
	Binary      string
	Image       string
	Transport   string
	ExtraArgs   []string
	Pull        string
	Network     string
	StoragePool netip.Prefix
	// EgressPool is the zero value without one.
	EgressPool      netip.Prefix
	EgressAllow     []string
	OrphanAfterSecs int64
}

// Crun is [worker.sandbox.crun].
type Crun struct {
	Program  string
	StateDir string
	Rooms    string
	// Digests has the pinned digests of rooms by their scanners, Pins where each
	// is pinned.
	Digests         map[string]string
	Pins            []Pin
	UsernsBase      uint32
	User            string
	CgroupParent    string
	CPUMilli        int64
	NoPivot         bool
	OrphanAfterSecs int64
}

// Pin is one key of [worker.sandbox.crun.digests].
type Pin struct {
	Scanner string
	// File and Line are where it is, for messages.
	File string
	Line int
}

// Bwrap is [worker.sandbox.bwrap].
type Bwrap struct {
	Binary string
	Rooms  string
}

// Scanner is [scanners.<name>]. Fields that were not set have their zero value
// and are filled in from the scanner's type.
type Scanner struct {
	Name     string
	Type     string
	Command  string
	Args     []string
	Layout   *Layout
	Timeout  time.Duration
	Network  *bool
	Findings string
	Image    string
	// SeccompProfile is the file of a profile of its own, SeccompSHA256 its
	// digest.
	SeccompProfile string
	SeccompSHA256  string
	Endpoint       string
	Online         bool
	Timeline       bool
	Ecosystems     []string
	// AddressSpaceMB is 0 when it was not set.
	AddressSpaceMB int64
	// File and Line are where the table begins, for messages.
	File string
	Line int
}

// Layout is [scanners.<name>.layout], or the string form of it.
type Layout struct {
	Kind string
	Path string
	// Nested is nil when it was not set, and empty when it was set to nothing.
	Nested []Nested
	Files  map[string]string
}

// Nested is one inner archive to unpack.
type Nested struct {
	Member string
	Into   string
}
