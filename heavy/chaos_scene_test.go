package heavy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/engine"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
)

const chaosImage = "localhost/batlehub-sandbox-chaos:latest"

// scene is what the chaos is made in: two engines and a server of the test's
// own, and all that can be left on them.
type scene struct {
	podman *engine.Engine
	daemon *engine.Daemon
	server *s3server.Server
	// serverUp and daemonUp are held while the one is down.
	serverUp, daemonUp sync.Mutex
	dir                string
	pool               netip.Prefix
	canary             netip.AddrPort
}

// stage is one engine with one transport.
type stage struct {
	*oci.Runtime
	engine *engine.Engine
	worker string
	runs   string
	hop    *bundle.Hop
	leaf   *s3.Backend
}

func (s *stage) String() string {
	return strings.TrimPrefix(s.worker, "chaos-")
}

// newScene starts everything. The test is skipped where something lacks.
func newScene(t *testing.T) *scene {
	t.Helper()
	canary := routableListener(t)
	s := &scene{
		podman: engine.Podman(t, containersConf()), daemon: engine.Docker(t),
		server: s3server.Start(t, s3server.MinIO, s3server.Options{Host: canary.Addr().String()}),
		pool:   netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 215, byte(rand.N(256)), 0}), 24),
		canary: canary,
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "sbx-chaos-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.dir) })
	if err := os.Chmod(s.dir, 0o711); err != nil {
		t.Fatal(err)
	}
	layer, err := theLab(t).Layer()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.engines() {
		if err := e.Import(t.Context(), layer, chaosImage); err != nil {
			t.Fatal(err)
		}
	}
	s.firewall(t)
	return s
}

func (s *scene) engines() []*engine.Engine { return []*engine.Engine{s.podman, &s.daemon.Engine} }

// containersConf is the containers.conf that podman needs on this host.
func containersConf() string {
	for _, entry := range engineEnv() {
		if path, ok := strings.CutPrefix(entry, "CONTAINERS_CONF="); ok {
			return path
		}
	}
	return ""
}

// firewall lets the runs reach the server and nothing else.
func (s *scene) firewall(t *testing.T) {
	t.Helper()
	ruleset, err := firewall.Ruleset(firewall.Zone{Pool: s.pool, Storage: []netip.AddrPort{netip.MustParseAddrPort(s.server.Address())}})
	if err != nil {
		t.Fatal(err)
	}
	table := fmt.Sprintf("%s_chaos_%d", firewall.Table, os.Getpid())
	install := exec.CommandContext(t.Context(), "nft", "-f", "-")
	install.Stdin = strings.NewReader(strings.ReplaceAll(ruleset, firewall.Table, table))
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("not run: nft can't change this host's rules: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("nft", "delete", "table", "inet", table).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// routableListener is an address that a container reaches unless a wall stands
// between.
func routableListener(t *testing.T) netip.AddrPort {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().Is4() || prefix.Addr().IsLoopback() || prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		if l, err := net.Listen("tcp", netip.AddrPortFrom(prefix.Addr(), 0).String()); err == nil {
			t.Cleanup(func() { l.Close() })
			return netip.MustParseAddrPort(l.Addr().String())
		}
	}
	t.Skip("not run: this host has no address that a sandbox could route to")
	return netip.AddrPort{}
}

// stages are the four runtimes over the scene.
func (s *scene) stages(t *testing.T) []*stage {
	t.Helper()
	var list []*stage
	for _, transport := range []string{oci.Mount, oci.Storage} {
		for _, e := range s.engines() {
			g := &stage{engine: e, worker: "chaos-" + e.Name + "-" + transport, runs: filepath.Join(s.dir, e.Name+"-"+transport)}
			c := oci.Config{
				Engine: e.Name, Image: chaosImage, Transport: transport, RunDir: g.runs, Worker: g.worker,
				Canaries: []netip.AddrPort{s.canary}, Env: e.Env,
			}
			if transport == oci.Storage {
				g.leaf = s.server.Backend(t)
				g.hop = bundle.NewHop(bundle.HopConfig{Runtime: oci.Name, Leaf: g.leaf})
				c.Hop, c.StoragePool, c.StorageEndpoints = g.hop, s.pool, []string{s.server.Endpoint()}
			}
			var err error
			if g.Runtime, err = oci.New(c); err != nil {
				t.Fatal(err)
			}
			list = append(list, g)
		}
	}
	return list
}

// end ends the stage's runtime, and what it stands on.
func (s *stage) end() error {
	err := s.Close()
	if s.hop != nil {
		err = errors.Join(err, s.hop.Close(), s.leaf.Close())
	}
	return err
}

// sweep sweeps until there is nothing more to find.
func (s *stage) sweep(ctx context.Context) (found int, err error) {
	for {
		report, err := s.Sweep(ctx, sandbox.SweepPolicy{Worker: s.worker})
		if err != nil || len(report.Removed) == 0 {
			return found, err
		}
		found += len(report.Removed)
	}
}

// leftOn lists what is left of all runs, on the engines, on the server and on
// the host. The engines are the test's own: any container is one too many.
func (s *scene) leftOn(t *testing.T) []string {
	t.Helper()
	var list []string
	say := func(e *engine.Engine, args ...string) {
		out, err := e.Say(t.Context(), nil, args...)
		if err != nil {
			list = append(list, err.Error())
		}
		for line := range strings.Lines(out) {
			list = append(list, fmt.Sprintf("%s %s: %s", e.Name, args[0], strings.TrimSpace(line)))
		}
	}
	// External ones are such as podman has begun and knows nothing of.
	say(s.podman, "ps", "-a", "--external", "--format", "{{.ID}} {{.Names}} {{.Status}}")
	say(&s.daemon.Engine, "ps", "-a", "--format", "{{.ID}} {{.Names}} {{.Status}}")
	for _, e := range s.engines() {
		for _, transport := range []string{oci.Mount, oci.Storage} {
			say(e, "network", "ls", "--filter", "label="+oci.LabelWorker+"=chaos-"+e.Name+"-"+transport, "--format", "{{.ID}} {{.Name}}")
		}
	}
	for o, err := range s.server.Backend(t).List(t.Context(), "") {
		list = append(list, "key "+o.Key)
		if err != nil {
			t.Error(err)
		}
	}
	runs, _ := filepath.Glob(filepath.Join(s.dir, "*", "*"))
	for _, path := range runs {
		list = append(list, "directory "+path)
	}
	bridges, _ := s.bridges(t)
	return append(append(list, bridges...), s.mounts(t)...)
}

// bridges are links with an address of the runs' pool: those that an engine has
// yet to remove, and those of a docker daemon that was killed while it made or
// removed one. Of the latter no command of docker's knows.
func (s *scene) bridges(t *testing.T) (left, forgotten []string) {
	t.Helper()
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		addresses, err := l.Addrs()
		if err != nil {
			continue // gone meanwhile
		}
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || !s.pool.Contains(p.Addr()) {
				continue
			}
			line := "link " + l.Name + " " + a.String()
			if strings.HasPrefix(l.Name, "br-") {
				forgotten = append(forgotten, line)
			} else {
				left = append(left, line)
			}
		}
	}
	return left, forgotten
}

// forgotten is what a docker daemon that was killed has left and does not know
// of any more when it is back: at most a bridge, a shim and what that was about
// to start, a kill.
func (s *scene) forgotten(t *testing.T) []string {
	t.Helper()
	_, list := s.bridges(t)
	all := processes()
	for _, p := range all {
		if p.isForgotten(all) && s.owns(p.line) {
			list = append(list, "process "+p.String())
		}
	}
	return list
}

// mounts are containers' file systems.
func (s *scene) mounts(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		for _, e := range s.engines() {
			if strings.HasPrefix(f[1], e.Dir+"/") && (f[0] == "overlay" || strings.HasPrefix(f[0], "shm")) {
				list = append(list, "mount "+f[1])
			}
		}
	}
	return list
}
