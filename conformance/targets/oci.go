package targets

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// OCIOptions say which engine and transport are checked.
type OCIOptions struct {
	// Engine is "podman" or "docker", Transport "mount" or "storage".
	Engine, Transport string
	// Binary is the engine's command line; empty means the engine's name.
	Binary string
	// S3 is the kind of server that is started for the storage transport,
	// "minio" or "versitygw", and S3Binary its program.
	S3, S3Binary string
	// Self is this program, which is also the worker that the suite kills;
	// empty for none.
	Self string
}

// ociBase is what all targets over one engine and transport share: the images
// that were made, and the storage.
type ociBase struct {
	OCIOptions
	builder *Builder
	storage *ociStorage

	mu     sync.Mutex
	images map[string]string
	names  []string
}

// OCI is the runtime over a container engine. What it starts on this host, a
// storage server and a firewall, is ended by close.
func OCI(ctx context.Context, b *Builder, o OCIOptions) (t *conformance.Target, closing func() error, err error) {
	if o.Binary == "" {
		o.Binary = o.Engine
	}
	base := &ociBase{OCIOptions: o, builder: b, images: map[string]string{}}
	version, err := base.version(ctx)
	if err != nil {
		return nil, nil, err
	}
	closing = func() error { return nil }
	if o.Transport == oci.Storage {
		if base.storage, err = startStorage(ctx, o); err != nil {
			return nil, nil, err
		}
		closing = base.storage.close
	}
	t = base.target(breakage{})
	t.Versions = map[string]string{o.Engine: version}
	if base.storage != nil {
		t.Versions[o.S3] = serverVersion(ctx, o.S3Binary)
	}
	t.Broken = base.broken
	t.Smuggled = base.smuggled()
	t.Mutants = ociMutants(base)
	t.Release = base.release
	if o.Self != "" {
		t.Capabilities = append(t.Capabilities, conformance.Worker)
		t.Worker = workerOf(o.Self, base.worker)
	}
	return t, closing, nil
}

// target is a target with something broken, or nothing.
func (b *ociBase) target(broken breakage) *conformance.Target {
	t := &conformance.Target{
		Name: strings.Join([]string{oci.Name, b.Engine, b.Transport}, "-"),
		Capabilities: []conformance.Capability{
			conformance.Results, conformance.Timeouts, conformance.Walls, conformance.Sweep, conformance.Network, conformance.Images, conformance.Probe,
			conformance.MemoryWall, conformance.ProcessWall, conformance.WorkWall, conformance.OuterFilter,
		},
		Versions: map[string]string{},
		Scanner:  scanner,
		New: func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			return b.make(ctx, s, broken)
		},
		ImageOf: func(ctx context.Context, s conformance.Setup) (string, error) { return b.image(ctx, s, broken) },
		Program: inRoom,
		Left:    b.left,
		Room: func(ctx context.Context, s conformance.Setup) (sandbox.Room, error) {
			return b.room(ctx, s, broken)
		},
		Another:   b.another,
		Orphans:   b.orphans(),
		Reference: newNone,
	}
	if b.Engine == oci.Podman {
		t.Capabilities = append(t.Capabilities, conformance.UserNamespace)
	}
	if b.Transport == oci.Mount {
		t.Exchange = "/bundle"
	}
	if b.storage != nil {
		t.Capabilities = append(t.Capabilities, conformance.Storage)
		t.Allowed, t.Store = b.storage.address, b.storage.store
	}
	return t
}

// room is what is probed. Its memory wall is low, for the probe runs into it.
func (b *ociBase) room(ctx context.Context, s conformance.Setup, broken breakage) (sandbox.Room, error) {
	image, err := b.image(ctx, s, broken)
	limits := wire.DefaultLimits()
	limits.MemoryMB, limits.AddressSpaceMB = 640, 640
	return sandbox.Room{Scanner: scanner, Image: image, Commands: []string{inRoom(s, "hostile")}, Limits: limits}, err
}

// config is the runtime's configuration for a session.
func (b *ociBase) config(s conformance.Setup) oci.Config {
	c := oci.Config{
		Engine: b.Engine, Binary: b.Binary, Transport: b.Transport, RunDir: filepath.Join(s.Dir, "runs"), Canaries: s.Canaries, Worker: s.Worker,
	}
	if b.storage != nil {
		c.StoragePool, c.StorageEndpoints = b.storage.pool, []string{b.storage.endpoint()}
		c.Hop = b.hop(b.storage.store)
	}
	return c
}

func (b *ociBase) hop(leaf storage.Backend) *bundle.Hop {
	return bundle.NewHop(bundle.HopConfig{Runtime: oci.Name, Leaf: leaf, Prefix: b.storage.store.Prefix})
}

// ociRuntime is the runtime with the hop that it was made with.
type ociRuntime struct {
	*oci.Runtime
	hop *bundle.Hop
}

// Close implements sandbox.Runtime.
func (r *ociRuntime) Close() error {
	err := r.Runtime.Close()
	if r.hop != nil {
		err = errors.Join(err, r.hop.Close())
	}
	return err
}

func (b *ociBase) make(ctx context.Context, s conformance.Setup, broken breakage) (sandbox.Runtime, error) {
	image, err := b.image(ctx, s, broken)
	if err != nil {
		return nil, err
	}
	c := b.config(s)
	c.Image, c.ExtraArgs = image, broken.extra
	if len(broken.edits)+len(broken.ignore) > 0 {
		if c.Binary, err = b.edited(ctx, s, broken); err != nil {
			return nil, err
		}
	}
	return newOCI(c)
}

func newOCI(c oci.Config) (sandbox.Runtime, error) {
	r, err := oci.New(c)
	if err != nil {
		return nil, err
	}
	return &ociRuntime{Runtime: r, hop: c.Hop}, nil
}

// edited is a program in the engine's place.
func (b *ociBase) edited(ctx context.Context, s conformance.Setup, broken breakage) (string, error) {
	real, err := exec.LookPath(b.Binary)
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.Dir, fmt.Sprintf("%s-%s", b.Engine, keyOf(broken)))
	return path, b.builder.editorAt(ctx, path, editorConfig{Program: real, When: "run", Edits: broken.edits, Ignore: broken.ignore})
}

// engine is one call of the engine's command line.
func (b *ociBase) engine(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, b.Binary, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", b.Engine, strings.Join(args[:min(2, len(args))], " "), withStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

func (b *ociBase) version(ctx context.Context) (string, error) {
	args := []string{"version", "--format", "{{.Client.Version}}"}
	if b.Engine == oci.Docker {
		args[2] = "{{.Server.Version}}"
	}
	v, err := b.engine(ctx, args...)
	if err != nil {
		return "", fmt.Errorf("%s does not answer (is it installed, and its daemon up?): %w", b.Engine, err)
	}
	return v, nil
}

// left lists this session's containers, and what the transport leaves.
func (b *ociBase) left(s conformance.Setup) ([]string, error) {
	ctx := context.Background()
	lines, err := b.listed(ctx, s, "container ", "ps", "-a", "--format", "{{.Names}}")
	if err != nil {
		return nil, err
	}
	if b.storage != nil {
		networks, err := b.listed(ctx, s, "network ", "network", "ls", "--format", "{{.Name}}")
		if err != nil {
			return nil, err
		}
		keys, err := keysOf(ctx, b.storage.store, s)
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, networks...), keys...)
	}
	directories, err := leftIn("runs")(s)
	return append(lines, directories...), err
}

// listed are those things of this session's that carry a worker's label.
func (b *ociBase) listed(ctx context.Context, s conformance.Setup, kind string, args ...string) ([]string, error) {
	out, err := b.engine(ctx, append(args, "--filter", "label="+oci.LabelWorker)...)
	if err != nil {
		return nil, err
	}
	var lines []string
	for name := range strings.FieldsSeq(out) {
		if strings.Contains(name, s.Token) {
			lines = append(lines, kind+name)
		}
	}
	return lines, nil
}

// ociWorker is what a worker process needs to make its runtime.
type ociWorker struct {
	Config  oci.Config
	Storage *s3Access
	Prefix  string
}

func (b *ociBase) worker(s conformance.Setup) workerConfig {
	w := &ociWorker{Config: b.config(s)}
	if w.Config.Hop != nil {
		_ = w.Config.Hop.Close()
		w.Config.Hop, w.Storage, w.Prefix = nil, &b.storage.access, b.storage.store.Prefix
	}
	w.Config.Canaries = []netip.AddrPort{}
	image, _ := b.image(context.Background(), s, breakage{})
	return workerConfig{OCI: w, Image: image}
}

func (w *ociWorker) runtime(context.Context) (sandbox.Runtime, error) {
	if w.Storage != nil {
		leaf, err := w.Storage.backend()
		if err != nil {
			return nil, err
		}
		w.Config.Hop = bundle.NewHop(bundle.HopConfig{Runtime: oci.Name, Leaf: leaf, Prefix: w.Prefix})
	}
	return newOCI(w.Config)
}

// inTemporary makes a directory for something that is needed once.
func inTemporary(s conformance.Setup, do func(dir string) error) error {
	dir, err := os.MkdirTemp(s.Dir, "once-")
	if err != nil {
		return err
	}
	return errors.Join(do(dir), os.RemoveAll(dir))
}
