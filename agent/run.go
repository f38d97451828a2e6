package agent

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent/internal/fetch"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Run carries one run out: the manifest is fetched from in, the result is
// stored at out. It returns ExitStored when a result was stored, and never
// panics: a fault of the agent's own is ExitInternal, without a result.
//
// When ctx ends first, everything that was started is ended, nothing is
// stored, and the answer is ExitCancelled.
func Run(ctx context.Context, in, out string, opts Options) (code ExitCode) {
	defer func() {
		if recover() != nil {
			code = ExitInternal
		}
	}()
	if fetch.Check(in) != nil || fetch.Check(out) != nil {
		return ExitUsage
	}
	r := &run{began: time.Now(), in: in, out: out, opts: opts, client: &fetch.Client{Roots: opts.Roots}}
	defer r.close()
	return r.all(ctx)
}

// run is one run in progress.
type run struct {
	began    time.Time
	in, out  string
	opts     Options
	client   *fetch.Client
	manifest *wire.Manifest
	root     *os.Root
	// bundle is the manifest's directory, where it is not the work directory.
	bundle *os.Root
	// exchanges are the directories outside of the work directory that the
	// bundle or the result stands in, and a pod's termination log.
	exchanges []string
	inputs    []*os.File
	store     store
	result    wire.Result
}

func (r *run) close() {
	for _, f := range r.inputs {
		if f != nil {
			f.Close()
		}
	}
	for _, root := range []*os.Root{r.root, r.bundle} {
		if root != nil {
			root.Close()
		}
	}
	r.store.close()
}

func (r *run) step(name string) {
	if r.opts.step != nil {
		r.opts.step(name)
	}
}

func (r *run) all(ctx context.Context) ExitCode {
	r.step("get the manifest")
	document, err := r.getManifest(ctx)
	if err != nil {
		return orCancelled(ctx, ExitManifest)
	}
	r.result = wire.Result{Wire: wire.Version, Agent: agentName(), Extraction: wire.Extraction{Notes: []wire.Note{}}}
	m, fault := wire.ParseManifest(document)
	if fault != nil {
		// Whoever wrote it is told what is wrong with it, if it can be
		// answered at all.
		head, err := wire.ParseHead(document)
		if err != nil {
			return ExitManifest
		}
		m = &wire.Manifest{SealKey: head.SealKey, Results: rising(head.Results)}
	}
	// What was parsed are copies. The document's own bytes name every URL, and
	// hold the key; the collector would leave them where they are.
	clear(document)
	r.manifest = m
	if r.root, err = os.OpenRoot(r.opts.WorkDir); err != nil {
		return ExitInternal
	}
	if r.store, err = openStore(r.client, r.out, m); err != nil {
		return ExitStore
	}
	if err = r.openBundle(); err != nil {
		return ExitInternal
	}
	var stdout []byte
	if fault != nil {
		r.failed(wire.StageManifest, fault)
		r.result.Failure.Code = codeOfManifest(fault)
	} else {
		stdout = r.body(ctx)
	}
	if ctx.Err() != nil {
		return ExitCancelled
	}
	r.step("store the result")
	storing, done := context.WithTimeout(ctx, storeBound)
	defer done()
	if err := r.store.put(storing, &r.result, stdout, r.emptyWorkDir); err != nil {
		return orCancelled(ctx, ExitStore)
	}
	return ExitStored
}

// How long the manifest may take to come, and the result to go, whatever a
// storage does. A manifest can't bound its own fetch; for a few KiB that come
// over any network at all it is plenty, and so is the other for the largest
// result. A worker's patience ends before either.
const (
	manifestBound = 2 * time.Minute
	storeBound    = 5 * time.Minute
)

func (r *run) getManifest(ctx context.Context) ([]byte, error) {
	ctx, done := context.WithTimeout(ctx, manifestBound)
	defer done()
	return r.client.Bytes(ctx, r.in, wire.ManifestCap)
}

func orCancelled(ctx context.Context, code ExitCode) ExitCode {
	if ctx.Err() != nil {
		return ExitCancelled
	}
	return code
}

func codeOfManifest(err error) string {
	var version *wire.VersionError
	if errors.As(err, &version) {
		return wire.CodeWireVersion
	}
	return wire.CodeIO
}

func agentName() string { return "batlehub-sandbox " + Release }

// body is everything between the manifest and the result. It fills in
// r.result and returns the scanner's stdout.
func (r *run) body(ctx context.Context) []byte {
	if r.manifest.Probe != nil {
		r.probe(ctx)
		return nil
	}
	gate := r.openGate(ctx)
	defer gate.stop()
	r.step("get the inputs")
	if !r.fetch(ctx) {
		return nil
	}
	r.step("extract")
	clock := newClock(r.manifest.Timeout())
	if !r.layOut(ctx, clock) {
		return nil
	}
	r.step("wait for the wall")
	if err := gate.wait(); err != nil {
		r.failed(wire.StageGate, err)
		r.result.Failure.Code = wire.CodeNetworkOpen
		return nil
	}
	r.step("launch")
	r.keepThreads()
	return r.scan(ctx, clock)
}
