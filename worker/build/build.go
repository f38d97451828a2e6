package build

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
	"github.com/batleforc/batlehub-sandbox/runtime/crun"
	"github.com/batleforc/batlehub-sandbox/runtime/none"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// Unsafe is the variable that allows runtime "none", when it is "1".
const Unsafe = "BATLEHUB_UNSAFE_NO_SANDBOX"

// Options say what a runtime is made from.
type Options struct {
	Sandbox config.Sandbox
	// Scanners are those of the configuration, for runtimes that know more of
	// each than its runs.
	Scanners map[string]config.Scanner
	// Runs are the runs that there will be, without their input, for a doctor to
	// ask after.
	Runs []sandbox.RunSpec
	// Worker is the id of this worker.
	Worker string
	// Unsafe says that Unsafe was set, and so that walls may be missing.
	Unsafe bool
	// Canaries are the addresses that must not answer from inside.
	Canaries []netip.AddrPort
	// Storage is what bundles travel through, for runtimes that need one, and
	// Bundles the one of its backends that holds them.
	Storage config.Storage
	Bundles config.Backend
	// WorkerImage is the image that this worker was started from, empty when
	// it is not known (see ImageVariable).
	WorkerImage string
	// Getenv reads a variable that the configuration names; nil means none is
	// set.
	Getenv func(string) string
}

// Built is a runtime and what its users have to know.
type Built struct {
	sandbox.Runtime
	// Work is the work directory as a scanner names it.
	Work string
	// Rooms is the directory with one room per scanner, empty for runtimes
	// without one.
	Rooms string
	// Walls says whether a run needs a room of its own to stand in.
	Walls bool
	// Images says which image a run is opened from; nil for runtimes that open
	// none.
	Images *Images

	record    recorder
	placement func(images []string) string
}

// Placement says where runs of those images take place, for the log.
func (b Built) Placement(images ...string) string {
	if b.placement == nil {
		return ""
	}
	return b.placement(images)
}

// Runtime makes the configured runtime. An error is a *config.Error or a
// *sandbox.Error of kind Refused.
func Runtime(o Options) (Built, error) {
	switch o.Sandbox.Runtime {
	case crun.Name:
		// Its runs are in its state directory.
		return o.crun()
	case "kubernetes":
		// Its runs have no directory here. That it may be missing from a build
		// is why it is not named by its package.
		return o.kubernetes()
	}
	runDir, err := absolute(o.Sandbox.RunDir)
	if err != nil {
		return Built{}, err
	}
	if err := checkRunDir(runDir); err != nil {
		return Built{}, err
	}
	switch o.Sandbox.Runtime {
	case none.Name:
		return o.none(runDir)
	case bwrap.Name:
		return o.bwrap(runDir)
	case oci.Name:
		return o.oci(runDir)
	}
	if err := config.CheckRuntime(o.Sandbox.Runtime); err != nil {
		return Built{}, &config.Error{Message: err.Error()}
	}
	return Built{}, &config.Error{Message: fmt.Sprintf("runtime %q can't be made", o.Sandbox.Runtime)}
}

func (o Options) none(runDir string) (Built, error) {
	r, err := none.New(none.Config{Unsafe: o.Unsafe, RunDir: runDir})
	if err != nil {
		return Built{}, err
	}
	return Built{Runtime: r, Work: "."}, nil
}

func (o Options) bwrap(runDir string) (Built, error) {
	rooms, err := absolute(o.Sandbox.Bwrap.Rooms)
	if err != nil {
		return Built{}, err
	}
	r, err := bwrap.New(bwrap.Config{
		Binary: o.Sandbox.Bwrap.Binary, Rooms: rooms, RunDir: runDir, Canaries: o.Canaries, Worker: o.Worker,
	})
	if err != nil {
		return Built{}, err
	}
	return Built{
		Runtime: hinted{r, rooms}, Work: "/work", Rooms: rooms, Walls: true,
		placement: func([]string) string { return "rooms in " + rooms },
	}, nil
}

// checkRunDir refuses a place for run directories that is not there. It is
// never made: a path with a slip in it would go unnoticed, and what was made
// stay behind.
func checkRunDir(dir string) error {
	where, fix := "run_dir is", "make the directory, or correct [worker.sandbox] run_dir or --run-dir"
	if dir == "" {
		dir, where, fix = os.TempDir(), "run_dir is not set and the temporary directory is", "make the directory, correct TMPDIR, or set [worker.sandbox] run_dir"
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &config.Error{Message: fmt.Sprintf("%s %s, which does not exist; %s", where, dir, fix)}
	case err != nil:
		return &config.Error{Message: fmt.Sprintf("%s %s, which can't be looked at: %v; %s", where, dir, err, fix)}
	case !info.IsDir():
		return &config.Error{Message: fmt.Sprintf("%s %s, which is no directory; %s", where, dir, fix)}
	}
	return nil
}

func absolute(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", &config.Error{Message: fmt.Sprintf("%s: %v", dir, err)}
	}
	return abs, nil
}
