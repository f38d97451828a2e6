package targets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// KubernetesOptions say which cluster is checked.
type KubernetesOptions struct {
	// Kubeconfig is a file whose current context may make namespaces.
	Kubeconfig string
	// Load is a program that brings images to the cluster's nodes, as
	// scripts/cluster.sh does: "image DIRECTORY NAME" prints a reference by
	// digest, "unload NAME…" takes such away again.
	Load string
	// Class is the runtime class of every pod; empty for the cluster's own.
	Class string
	// NodeElsewhere says that the nodes do not have this host's files.
	NodeElsewhere bool
	// S3 and S3Binary are the storage server that is started for the bundles.
	S3, S3Binary string
	// Self is this program, which is also the worker that the suite kills;
	// empty for none.
	Self string
}

// runscClass is the class of gVisor's program, by convention.
const runscClass = "runsc"

// kubernetesBase is what all targets over one cluster share.
type kubernetesBase struct {
	KubernetesOptions
	builder *Builder
	cluster *cluster
	server  *s3Server
	store   *conformance.Store
	// resolvers are the cluster's.
	resolvers []netip.AddrPort

	mu         sync.Mutex
	images     map[string]string
	namespaces map[string]*namespace
}

// Kubernetes is the runtime over a cluster. The storage server that it starts
// on this host is ended by closing.
func Kubernetes(ctx context.Context, b *Builder, o KubernetesOptions) (t *conformance.Target, closing func() error, err error) {
	base := &kubernetesBase{KubernetesOptions: o, builder: b, images: map[string]string{}, namespaces: map[string]*namespace{}}
	if base.cluster, err = connect(o.Kubeconfig); err != nil {
		return nil, nil, err
	}
	version, err := base.cluster.version()
	if err != nil {
		return nil, nil, err
	}
	if err := base.cluster.hasClass(ctx, o.Class); err != nil {
		return nil, nil, err
	}
	if base.resolvers, err = base.cluster.resolvers(ctx); err != nil {
		return nil, nil, err
	}
	if base.server, err = startS3(ctx, o.S3, o.S3Binary); err != nil {
		return nil, nil, err
	}
	leaf, err := base.server.access.backend()
	if err != nil {
		return nil, nil, errors.Join(err, base.server.close())
	}
	base.store = conformance.NewStore(leaf, bundle.DefaultPrefix)
	t = base.target(podBreakage{})
	t.Versions = map[string]string{"kubernetes": version, o.S3: serverVersion(ctx, o.S3Binary)}
	t.Broken = base.broken
	t.Smuggled = base.smuggled()
	t.Mutants = kubernetesMutants(base)
	t.Release = base.release
	if o.Self != "" {
		t.Capabilities = append(t.Capabilities, conformance.Worker)
		t.Worker = workerOf(o.Self, base.worker)
	}
	return t, base.server.close, nil
}

// target is a target with something broken, or nothing.
func (b *kubernetesBase) target(broken podBreakage) *conformance.Target {
	t := &conformance.Target{
		Name: strings.TrimSuffix(kubernetes.Name+"-"+b.Class, "-"),
		Capabilities: []conformance.Capability{
			conformance.Results, conformance.Timeouts, conformance.Walls, conformance.Sweep, conformance.Network, conformance.Images, conformance.Probe,
			conformance.MemoryWall, conformance.ProcessWall, conformance.WorkWall, conformance.Storage,
		},
		Versions: map[string]string{},
		Scanner:  scanner,
		New: func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			return b.make(ctx, s, broken)
		},
		ImageOf: func(ctx context.Context, s conformance.Setup) (string, error) {
			return b.image(ctx, s, broken.breakage)
		},
		Program: inRoom,
		Left:    b.left,
		Room: func(ctx context.Context, s conformance.Setup) (sandbox.Room, error) {
			return b.room(ctx, s, broken)
		},
		Another:   b.another,
		Orphans:   b.orphans(),
		Reference: newNone,
		Allowed:   b.server.address,
		Store:     b.store,
		Resolvers: b.resolvers,
		Addresses: b.addresses,
		Unflagged: "a kubelet mounts every emptyDir without them, whatever a pod says",
	}
	if b.onGVisor() {
		t.Opaque, t.Without = true, gvisorPodsLack()
	} else {
		t.Capabilities = append(t.Capabilities, conformance.OuterFilter)
		t.Masked = []string{"/proc/keys", "/proc/timer_list"}
	}
	return t
}

// gvisorPodsLack is what gVisor does not hold, but for what a pod has not: no
// result's place, and a work directory whose flags something stands in for.
func gvisorPodsLack() map[string]string {
	lacks := maps.Clone(gvisorLacks)
	delete(lacks, "W53")
	delete(lacks, "W111")
	delete(lacks, "W55")
	return lacks
}

func (b *kubernetesBase) onGVisor() bool { return b.Class == runscClass }

// room is what is probed. Its memory wall is low, for the probe runs into it.
func (b *kubernetesBase) room(ctx context.Context, s conformance.Setup, broken podBreakage) (sandbox.Room, error) {
	image, err := b.image(ctx, s, broken.breakage)
	limits := wire.DefaultLimits()
	limits.MemoryMB, limits.AddressSpaceMB = 640, 640
	if b.onGVisor() {
		// Its kernel needs some of it, and takes the agent along when it dies.
		limits.MemoryMB, limits.AddressSpaceMB = 1024, 1024
	}
	return sandbox.Room{Scanner: scanner, Image: image, Commands: []string{inRoom(s, "hostile")}, Limits: limits}, err
}

// config is the runtime's configuration for a session, as the namespace's
// worker and no more.
func (b *kubernetesBase) config(ctx context.Context, s conformance.Setup, broken podBreakage) (kubernetes.Config, error) {
	n, err := b.namespace(ctx, s, broken)
	if err != nil {
		return kubernetes.Config{}, err
	}
	return b.configOf(n.access, s), nil
}

// configOf is the configuration of whoever has that access to a namespace.
func (b *kubernetesBase) configOf(a clusterAccess, s conformance.Setup) kubernetes.Config {
	return kubernetes.Config{
		API: a.config(), Namespace: a.Namespace, RuntimeClass: b.Class, OwnKernel: b.onGVisor(), Canaries: s.Canaries, Worker: s.Worker,
	}
}

func (b *kubernetesBase) hop(leaf storage.Backend) *bundle.Hop {
	return bundle.NewHop(bundle.HopConfig{Runtime: kubernetes.Name, Leaf: leaf, Prefix: b.store.Prefix})
}

// kubernetesRuntime is the runtime with the hop that it was made with.
type kubernetesRuntime struct {
	*kubernetes.Runtime
	hop *bundle.Hop
}

// Close implements sandbox.Runtime.
func (r *kubernetesRuntime) Close() error { return errors.Join(r.Runtime.Close(), r.hop.Close()) }

func (b *kubernetesBase) make(ctx context.Context, s conformance.Setup, broken podBreakage) (sandbox.Runtime, error) {
	return b.makeOver(ctx, s, broken, b.store)
}

// makeOver makes the runtime over what stands in the storage's place.
func (b *kubernetesBase) makeOver(ctx context.Context, s conformance.Setup, broken podBreakage, leaf storage.Backend) (sandbox.Runtime, error) {
	broken = broken.in(s)
	image, err := b.image(ctx, s, broken.breakage)
	if err != nil {
		return nil, err
	}
	c, err := b.config(ctx, s, broken)
	if err != nil {
		return nil, err
	}
	c.Image = image
	broken.wrap(c.API)
	return newKubernetes(c, b.hop(leaf))
}

func newKubernetes(c kubernetes.Config, hop *bundle.Hop) (sandbox.Runtime, error) {
	c.Hop = hop
	r, err := kubernetes.New(c)
	if err != nil {
		return nil, errors.Join(err, hop.Close())
	}
	return &kubernetesRuntime{Runtime: r, hop: hop}, nil
}

// left lists this session's pods, and what the transport leaves.
func (b *kubernetesBase) left(s conformance.Setup) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pods, err := b.pods(ctx, s)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, pod := range pods {
		if strings.Contains(pod.Labels[kubernetes.LabelWorker], s.Token) {
			lines = append(lines, podPrefix+podLine(&pod))
		}
	}
	keys, err := keysOf(ctx, b.store, s)
	return append(lines, keys...), err
}

// addresses are those of this session's pods.
func (b *kubernetesBase) addresses(ctx context.Context, s conformance.Setup) ([]netip.Addr, error) {
	pods, err := b.pods(ctx, s)
	var list []netip.Addr
	for _, pod := range pods {
		if address, err := netip.ParseAddr(pod.Status.PodIP); err == nil {
			list = append(list, address)
		}
	}
	return list, err
}

// podPrefix begins the lines of Left that name a pod.
const podPrefix = "pod "

// podLine names a pod with its job, by which a leak is blamed on its spec.
func podLine(pod *corev1.Pod) string {
	return fmt.Sprintf("%s/%s of %s", pod.Namespace, pod.Name, pod.Labels[kubernetes.LabelJob])
}

// kubernetesWorker is what a worker process needs to make its runtime.
type kubernetesWorker struct {
	Access  clusterAccess
	Class   string
	Storage s3Access
	Prefix  string
}

func (b *kubernetesBase) worker(s conformance.Setup) workerConfig {
	image, _ := b.image(context.Background(), s, breakage{})
	w := &kubernetesWorker{Class: b.Class, Storage: b.server.access, Prefix: b.store.Prefix}
	if n, err := b.namespace(context.Background(), s, podBreakage{}); err == nil {
		w.Access = n.access
	}
	return workerConfig{Kubernetes: w, Image: image}
}

func (w *kubernetesWorker) runtime(context.Context) (sandbox.Runtime, error) {
	leaf, err := w.Storage.backend()
	if err != nil {
		return nil, err
	}
	b := &kubernetesBase{KubernetesOptions: KubernetesOptions{Class: w.Class}, store: conformance.NewStore(leaf, w.Prefix)}
	c := b.configOf(w.Access, conformance.Setup{Canaries: []netip.AddrPort{}})
	return newKubernetes(c, b.hop(leaf))
}

// image is the image of a room, made once a session and brought to the nodes.
func (b *kubernetesBase) image(ctx context.Context, s conformance.Setup, broken breakage) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := s.Token + "-" + keyOf(breakage{agent: broken.agent, noAgent: broken.noAgent, files: broken.files})
	if image := b.images[key]; image != "" {
		return image, nil
	}
	var reference string
	err := inTemporary(s, func(dir string) error {
		tree := filepath.Join(dir, "room")
		if err := buildImageTree(ctx, b.builder, s, tree, broken); err != nil {
			return err
		}
		var err error
		reference, err = b.loader(ctx, "image", tree, "sandbox-conformance.local/room-"+key)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("making an image: %w", err)
	}
	b.images[key] = reference
	return reference, nil
}

// another is an image with one more file.
func (b *kubernetesBase) another(ctx context.Context, s conformance.Setup) (string, conformance.MarkedFile, error) {
	file := conformance.MarkedFile{Path: "/usr/share/another", Content: "another image"}
	image, err := b.image(ctx, s, breakage{files: map[string]string{"usr/share/another": file.Content}})
	return image, file, err
}

// release removes the session's namespaces and images.
func (b *kubernetesBase) release(ctx context.Context, _ conformance.Setup) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, n := range b.namespaces {
		errs = append(errs, b.cluster.removeNamespace(ctx, n.access.Namespace))
	}
	var names []string
	for _, image := range b.images {
		names = append(names, image)
	}
	if len(names) > 0 {
		_, err := b.loader(ctx, "unload", names...)
		errs = append(errs, err)
	}
	b.namespaces, b.images = map[string]*namespace{}, map[string]string{}
	return errors.Join(errs...)
}
