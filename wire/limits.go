package wire

import "fmt"

// Limits are the bounds of the scanner's own process. What a bound becomes
// depends on the runtime: an rlimit, a cgroup's, a pod's.
type Limits struct {
	// MemoryMB is the memory of the whole sandbox in MiB, where the runtime
	// has such a wall.
	MemoryMB int64 `json:"memory_mb"`
	// AddressSpaceMB is RLIMIT_AS of the scanner in MiB. AddressSpaceOff
	// leaves it unlimited, for programs that reserve far more than they use
	// (Node, wasm, Go with race detection).
	AddressSpaceMB int64 `json:"address_space_mb"`
	// CPUSeconds is RLIMIT_CPU of the scanner.
	CPUSeconds int64 `json:"cpu_seconds"`
	// Processes is RLIMIT_NPROC of the scanner's uid; 0 leaves it alone, as
	// it must be where the uid is shared with processes outside the sandbox.
	Processes int64 `json:"processes"`
	// OpenFiles is RLIMIT_NOFILE of the scanner; 0 leaves it alone.
	OpenFiles int64 `json:"open_files"`
	// FileMB is RLIMIT_FSIZE of the scanner in MiB; 0 leaves it alone.
	FileMB int64 `json:"file_mb"`
}

// AddressSpaceOff as Limits.AddressSpaceMB sets no RLIMIT_AS.
const AddressSpaceOff = -1

// DefaultLimits are the limits of a configuration that says nothing.
func DefaultLimits() Limits {
	return Limits{MemoryMB: 2048, AddressSpaceMB: 2048, CPUSeconds: 300, Processes: 256, OpenFiles: 1024, FileMB: 512}
}

// Validate reports the first limit out of range.
func (l Limits) Validate() error {
	const most = 1 << 40
	fields := []struct {
		name       string
		value, min int64
	}{
		{"memory_mb", l.MemoryMB, 1},
		{"address_space_mb", l.AddressSpaceMB, AddressSpaceOff},
		{"cpu_seconds", l.CPUSeconds, 1},
		{"processes", l.Processes, 0},
		{"open_files", l.OpenFiles, 0},
		{"file_mb", l.FileMB, 0},
	}
	for _, f := range fields {
		if f.value < f.min || f.value > most {
			return fmt.Errorf("limits: %s is %d, want %d to %d", f.name, f.value, f.min, int64(most))
		}
	}
	if l.AddressSpaceMB == 0 {
		return fmt.Errorf("limits: address_space_mb is 0, want at least 1, or %d for no limit", AddressSpaceOff)
	}
	return nil
}
