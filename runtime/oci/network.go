package oci

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// noNetwork is the engines' name of the network that is none.
const noNetwork = "none"

// overlaps is how often another subnet is tried when one is taken.
const overlaps = 8

// subnet is the nth network of a run that a pool holds, counted modulo.
func subnet(pool netip.Prefix, n uint32) netip.Prefix {
	count := uint32(1) << (firewall.RunBits - pool.Bits())
	base := pool.Addr().As4()
	address := binary.BigEndian.Uint32(base[:]) + n%count<<(32-firewall.RunBits)
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], address)
	return netip.PrefixFrom(netip.AddrFrom4(b), firewall.RunBits)
}

// join settles which network a run's container is on, and makes it if it is
// the run's own: under the storage transport a run without network reaches
// the storage, which is more than none and less than any network of others. A
// run with network has its own where the firewall is to bound it.
func (r *Runtime) join(ctx context.Context, j *job, in *Instance) *sandbox.Error {
	switch {
	case j.spec.Network && !r.config.EgressPool.IsValid():
		in.Network = r.config.Network
		return nil
	case !j.spec.Network && r.config.Transport == Mount:
		in.Network = noNetwork
		return nil
	}
	pool := r.config.StoragePool
	if j.spec.Network {
		pool = r.config.EgressPool
	}
	hosts, err := r.resolve(ctx)
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "resolving the storage endpoint", Err: err}
	}
	in.Network, in.Own, in.Hosts = j.name(), true, hosts
	if j.spec.Network {
		in.Resolvers = resolvers(r.config.EgressAllow)
	}
	return r.makeNetwork(ctx, j, pool, in.Deadline)
}

// kept are the canaries that a run with network must not reach either.
func (r *Runtime) kept() []string {
	list := []string{}
	for _, canary := range r.config.Canaries {
		reached := slices.ContainsFunc(r.config.EgressAllow, func(d firewall.Destination) bool { return d.Reaches(canary) })
		for _, e := range r.endpoints {
			reached = reached || e.host == canary.Addr().String() && e.port == canary.Port()
		}
		if !reached {
			list = append(list, canary.String())
		}
	}
	return list
}

// resolvers are the addresses with port 53.
func resolvers(allowed []firewall.Destination) []string {
	var list []string
	for _, d := range allowed {
		if d.Port == 53 && d.Prefix.IsSingleIP() {
			list = append(list, d.Prefix.Addr().String())
		}
	}
	return list
}

// makeNetwork makes a run's own network, in a subnet of the pool that is free. The calls
// outlive ctx: of one that is broken off nobody knows whether docker's daemon
// makes the network all the same, after its removal perhaps.
func (r *Runtime) makeNetwork(ctx context.Context, j *job, pool netip.Prefix, deadline time.Time) *sandbox.Error {
	args := append([]string{"network", "create", "--driver", "bridge"}, labels(j.spec.Label, deadline)...)
	if r.config.Engine == Podman {
		args = append(args, "--disable-dns")
	}
	var err error
	for range overlaps {
		free := subnet(pool, rand.Uint32())
		err = r.must(context.WithoutCancel(ctx), j.host, append(args, "--subnet", free.String(), j.name())...)
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			return nil
		}
		if !isOverlap(err) {
			break
		}
	}
	fault := r.networkFault(ctx, j, err)
	if left := r.removeOwnNetwork(ctx, j); left != nil {
		fault.Err = errors.Join(fault.Err, left)
	}
	return fault
}

// unfetched is the bundle of a run that has no container yet.
type unfetched struct{ bundle.Carrier }

// Fetched says that nobody has fetched it.
func (unfetched) Fetched() bool { return false }

func isOverlap(err error) bool {
	said := err.Error()
	return strings.Contains(said, "overlaps") || strings.Contains(said, "already used on the host") ||
		strings.Contains(said, "subnet") && strings.Contains(said, "already")
}

func (r *Runtime) networkFault(ctx context.Context, j *job, err error) *sandbox.Error {
	if ctx.Err() != nil {
		return bundle.EndError(ctx, unfetched{})
	}
	fault := &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "making the run's network", Err: err, Hint: docs}
	var call *callError
	if errors.As(err, &call) {
		fault.Stderr, fault.Err = tidy(call.exit.Stderr), nil
		r.recognise(fault, engineFailed)
	}
	if isOverlap(err) {
		key := "storage_pool"
		if j.spec.Network {
			key = "egress_pool"
		}
		fault.Hint = fmt.Sprintf("set [worker.sandbox.oci] %s to a network that this host does not use", key)
	}
	return fault
}

// leave removes a run's own network, once its container is gone.
func (r *Runtime) leave(ctx context.Context, j *job, in Instance) error {
	if !in.Own {
		return nil
	}
	return r.removeOwnNetwork(ctx, j)
}

// removeOwnNetwork removes the run's network, if it is there and not one of the
// same name that another worker made.
func (r *Runtime) removeOwnNetwork(ctx context.Context, j *job) error {
	found, err := r.own(context.WithoutCancel(ctx), j, "network", "ls")
	for _, name := range found {
		err = errors.Join(err, r.removeNetwork(ctx, j.host, name))
	}
	return err
}

// removeNetwork removes a network by its name or id, under a context of its
// own. That there is none is no error.
func (r *Runtime) removeNetwork(ctx context.Context, h *host, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.removal)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		err := r.must(context.WithoutCancel(ctx), h, "network", "rm", name)
		if err == nil || strings.Contains(err.Error(), "not found") || strings.Contains(err.Error(), "No such network") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the network %s may be left, for a sweep to remove: %w", name, err)
		case <-again.C:
		}
	}
}

// resolve asks this host where the storage is, so that the sandbox need not.
func (r *Runtime) resolve(ctx context.Context) ([]string, error) {
	var hosts []string
	for _, e := range r.endpoints {
		if _, err := netip.ParseAddr(e.host); err == nil {
			continue
		}
		addresses, err := e.addresses(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range addresses {
			hosts = append(hosts, e.host+":"+a.String())
		}
	}
	return hosts, nil
}

// refuse is what an engine can't do for a run, whatever is tried.
func (r *Runtime) refuse(h *host, spec sandbox.RunSpec) *sandbox.Error {
	refused := &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeNotRootless}
	switch {
	case r.config.Transport == Storage && h.rootless && !spec.Network:
		refused.Detail = "a rootless engine has no network that reaches the storage and nothing else"
		refused.Hint = `set [worker.sandbox.oci] transport = "mount", or use the rootful engine`
	case r.config.EgressPool.IsValid() && h.rootless && spec.Network:
		refused.Detail = "a rootless engine's networks are not this host's, and its firewall can't hold them to egress_allow"
		refused.Hint = "leave [worker.sandbox.oci] egress_pool out, or use the rootful engine"
	case r.config.Transport == Mount && r.config.Engine == Docker && (h.rootless || !root()):
		refused.Detail = "docker can't be given a run directory that its sandbox may write to and this worker may read"
		refused.Hint = `set [worker.sandbox.oci] transport = "storage" or engine = "podman", or run the worker as root beside a rootful daemon`
	case r.config.Engine == Podman && !h.rootless && (spec.Network || r.config.Transport == Storage) && LosesNetworks():
		refused.Code = sandbox.CodeHostRefused
		refused.Detail = "podman would leave every run's network behind, because " + netnsDir + " is not on a shared mount of this host"
		refused.Hint = "as root: mount --make-rshared / (systemd does so; what starts this host has to)"
	default:
		return nil
	}
	return refused
}

// Endpoints are where the storage listens, for the firewall: the addresses that a
// sandbox without network is given, as this host resolves them now.
func Endpoints(ctx context.Context, urls []string) ([]netip.AddrPort, error) {
	endpoints, err := parseEndpoints(urls)
	if err != nil {
		return nil, err
	}
	var list []netip.AddrPort
	for _, e := range endpoints {
		addresses, err := e.addresses(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range addresses {
			list = append(list, netip.AddrPortFrom(a, e.port))
		}
	}
	return list, nil
}

// addresses are the IPv4 addresses of an endpoint.
func (e endpoint) addresses(ctx context.Context) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(e.host); err == nil {
		return []netip.Addr{a}, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", e.host)
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, err
}
