package oci

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Name is the runtime's name in configuration.
const Name = "oci"

// The engines.
const (
	Podman = "podman"
	Docker = "docker"
)

// The transports.
const (
	Mount   = "mount"
	Storage = "storage"
)

// The pull policies.
const (
	PullNever    = "never"
	PullIfAbsent = "if-absent"
)

// DefaultStoragePool is where the networks of runs come from that may reach
// the storage and nothing else.
var DefaultStoragePool = netip.MustParsePrefix("10.213.0.0/16")

// Config configures the runtime.
type Config struct {
	// Engine is Podman or Docker; empty means Podman.
	Engine string
	// Binary is the engine's command line: a path, or a name looked up on
	// PATH; empty means the engine's own name.
	Binary string
	// Image is what runs that name no image are run from; empty means that
	// such runs are refused.
	Image string
	// Transport is Mount or Storage; empty means Mount.
	Transport string
	// ExtraArgs are put last before the image. They can take walls down; the
	// probe sees that, and New refuses what it could not see (see checkExtra).
	ExtraArgs []string
	// Pull is PullNever or PullIfAbsent; empty means PullNever.
	Pull string
	// Network is the network of runs with network, if EgressPool is not set;
	// empty means the engine's default.
	Network string
	// EgressPool is cut into the networks of runs with network, which the
	// firewall (see package firewall) holds to the storage and to what it is told to
	// let through; the zero value means that they join Network.
	EgressPool netip.Prefix
	// EgressAllow is what the firewall lets runs out of EgressPool reach. A
	// run is kept from the canaries that are not in it, and names are asked
	// of its addresses with port 53, and of nobody else.
	EgressAllow []firewall.Destination
	// StoragePool is cut into the networks of runs that may reach the storage
	// alone; the zero value means DefaultStoragePool. The firewall of the
	// host (see package firewall) has to know it.
	StoragePool netip.Prefix
	// RunDir is the directory in which each run gets its own, but docker's
	// under Storage; empty means the system's temporary directory.
	RunDir string
	// Hop moves the bundles under Storage. It stays its owner's to close.
	Hop *bundle.Hop
	// StorageEndpoints are the URLs of the storage as a sandbox names it.
	// Their names are resolved here, for runs without network.
	StorageEndpoints []string
	// Canaries are addresses that no run without network may reach; nil means
	// DefaultCanaries. Without any, a probe could not see its network wall.
	Canaries []netip.AddrPort
	// Worker is the id that probes are labelled with; empty means "probe".
	Worker string
	// Env is added to the engine's environment, as "NAME=value". Of this
	// process's own environment the engine gets what says where it is (see
	// PassedOn), and nothing else.
	Env []string
}

func (c Config) withDefaults() Config {
	if c.Engine == "" {
		c.Engine = Podman
	}
	if c.Binary == "" {
		c.Binary = c.Engine
	}
	if c.Transport == "" {
		c.Transport = Mount
	}
	if c.Pull == "" {
		c.Pull = PullNever
	}
	if c.StoragePool == (netip.Prefix{}) {
		c.StoragePool = DefaultStoragePool
	}
	if c.RunDir == "" {
		c.RunDir = os.TempDir()
	}
	if abs, err := filepath.Abs(c.RunDir); err == nil {
		c.RunDir = abs
	}
	if c.Canaries == nil {
		c.Canaries = DefaultCanaries
	}
	if c.Worker == "" {
		c.Worker = "probe"
	}
	return c
}

// check refuses what no run could be made from.
func (c Config) check() ([]endpoint, error) {
	switch {
	case c.Engine != Podman && c.Engine != Docker:
		return nil, fmt.Errorf("engine %.32q is not known; one of podman, docker", c.Engine)
	case c.Transport != Mount && c.Transport != Storage:
		return nil, fmt.Errorf("transport %.32q is not known; one of mount, storage", c.Transport)
	case c.Pull != PullNever && c.Pull != PullIfAbsent:
		return nil, fmt.Errorf("pull %.32q is not known; one of never, if-absent", c.Pull)
	case c.Transport == Storage && c.Hop == nil:
		return nil, errNoHop
	case strings.Contains(c.RunDir, ":"):
		return nil, fmt.Errorf("the run directory %q has a colon, which no engine can bind", c.RunDir)
	case strings.HasPrefix(c.Network, "-"):
		return nil, fmt.Errorf("network %q is not a network's name", c.Network)
	}
	if err := c.checkExtra(); err != nil {
		return nil, err
	}
	if c.Image != "" {
		if _, err := ParseImage(c.Image); err != nil {
			return nil, fmt.Errorf("%w; name an image as %s", err, ImageForms)
		}
	}
	if err := firewall.CheckPool(c.StoragePool); err != nil {
		return nil, err
	}
	if c.EgressPool != (netip.Prefix{}) {
		if err := c.checkEgress(); err != nil {
			return nil, err
		}
	}
	for _, canary := range c.Canaries {
		if _, err := wire.ParseCanary(canary.String()); err != nil {
			return nil, err
		}
	}
	return parseEndpoints(c.StorageEndpoints)
}

func (c Config) checkEgress() error {
	switch {
	case c.Network != "":
		return fmt.Errorf("network %q and an egress pool: a run with network joins one or the other", c.Network)
	case c.EgressPool.Overlaps(c.StoragePool):
		return fmt.Errorf("the egress pool %s overlaps the storage pool %s", c.EgressPool, c.StoragePool)
	}
	return firewall.CheckPool(c.EgressPool)
}

// endpoint is where a storage listens.
type endpoint struct {
	host string
	port uint16
}

func parseEndpoints(urls []string) ([]endpoint, error) {
	var list []endpoint
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("the storage endpoint %.128q is not an http or https URL", s)
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("the storage endpoint %.128q has no port", s)
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (!ip.Is4() || ip.IsLoopback()) {
			return nil, fmt.Errorf("the storage endpoint %s is no IPv4 address that a container can reach", net.JoinHostPort(u.Hostname(), port))
		}
		list = append(list, endpoint{host: u.Hostname(), port: uint16(n)})
	}
	return list, nil
}
