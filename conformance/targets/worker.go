package targets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
	"github.com/batleforc/batlehub-sandbox/runtime/crun"
	"github.com/batleforc/batlehub-sandbox/runtime/none"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// workerConfig is what a worker process is told: how to make its runtime, and
// the one run.
type workerConfig struct {
	Run   conformance.WorkerRun
	Image string
	Bwrap *bwrap.Config
	None  *none.Config
	OCI   *ociWorker
	Crun  *crun.Config

	Kubernetes *kubernetesWorker

	// Unwatched kills the janitor of a bwrap's worker, which would end what that
	// leaves.
	Unwatched bool
}

// workerOf is the command's own hidden verb that makes one run and waits. What
// it is told goes by a file: it may hold credentials, which argv must not.
func workerOf(self string, config func(conformance.Setup) workerConfig) func(conformance.Setup, conformance.WorkerRun) (*exec.Cmd, error) {
	return func(s conformance.Setup, run conformance.WorkerRun) (*exec.Cmd, error) {
		c := config(s)
		c.Run = run
		b, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(s.Dir, fmt.Sprintf("worker-%s.json", run.Label))
		if err := os.WriteFile(file, b, 0o600); err != nil {
			return nil, err
		}
		return exec.Command(self, "worker", file), nil
	}
}

// bwrapWorker is a worker over the rooms that stand in the setup's directory.
func bwrapWorker(s conformance.Setup) workerConfig {
	c := &bwrap.Config{Binary: bwrap.DefaultBinary, Rooms: filepath.Join(s.Dir, "rooms"), RunDir: filepath.Join(s.Dir, "runs")}
	if edited := filepath.Join(s.Dir, "rooms-bwrap"); exists(edited) {
		c.Binary = edited
	}
	return workerConfig{Bwrap: c}
}

// unwatchedBwrap is a worker that nothing cleans up after.
func unwatchedBwrap(s conformance.Setup) workerConfig {
	c := bwrapWorker(s)
	c.Unwatched = true
	return c
}

func noneWorker(s conformance.Setup) workerConfig {
	return workerConfig{None: &none.Config{Unsafe: true, RunDir: filepath.Join(s.Dir, "runs")}}
}

// RunAsWorker makes the one run that the file describes, and waits for its end.
// The suite kills it meanwhile.
func RunAsWorker(ctx context.Context, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c workerConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	r, err := c.runtime(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if c.Unwatched {
		go killJanitor(ctx, c.Bwrap.RunDir)
	}
	out, err := r.Run(ctx, c.spec())
	if closer, ok := r.(sandbox.JobCloser); ok {
		err = errors.Join(err, closer.CloseJob(ctx, c.Run.Label.Worker, c.Run.Label.Job))
	}
	if err == nil && (out.Status == nil || *out.Status != 0) {
		err = fmt.Errorf("the scanner did not end well: %+v", out.Result)
	}
	return err
}

func (c *workerConfig) runtime(ctx context.Context) (sandbox.Runtime, error) {
	switch {
	case c.Bwrap != nil:
		return bwrap.New(*c.Bwrap)
	case c.None != nil:
		return none.New(*c.None)
	case c.OCI != nil:
		return c.OCI.runtime(ctx)
	case c.Crun != nil:
		return crun.New(*c.Crun)
	case c.Kubernetes != nil:
		return c.Kubernetes.runtime(ctx)
	}
	return nil, errors.New("a worker without a runtime")
}

// spec is the run, over an artifact that is large enough to be seen lying
// around.
func (c *workerConfig) spec() sandbox.RunSpec {
	const size = 256 << 10
	return sandbox.RunSpec{
		Argv: c.Run.Argv, StartTimeout: c.Run.StartTimeout, Timeout: c.Run.Timeout, Limits: wire.DefaultLimits(), Image: c.Image, Label: c.Run.Label,
		Bundle: sandbox.Bundle{
			Policy: wire.DefaultExtractPolicy(), Artifact: zeros(size),
			Entries: []wire.Entry{{Path: wire.MustRelPath("artifact"), Kind: wire.File, URL: wire.ArtifactURL, Size: size}},
		},
	}
}

// zeros is an artifact of so many zero bytes.
type zeros int64

func (z zeros) Key() string { return "" }
func (z zeros) Size() int64 { return int64(z) }
func (z zeros) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(make([]byte, z))), nil
}
