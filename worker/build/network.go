package build

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// Zones are the pools that the host's firewall bounds, and what each reaches:
// the bundles' backend, resolved, and what is allowed besides it: by allow for
// runs without network, by egress_allow for those with. A configuration whose
// runs need no firewall is a *config.Error. Errors are one line.
func Zones(ctx context.Context, c *config.Config, allow []netip.AddrPort) ([]firewall.Zone, error) {
	s := c.Worker.Sandbox
	if s.Runtime != oci.Name {
		return nil, &config.Error{Message: fmt.Sprintf("runtime is %q, which makes no networks: there is nothing to do", s.Runtime)}
	}
	var zones []firewall.Zone
	var storage []netip.AddrPort
	if s.StorageHop() {
		var err error
		if storage, err = storageEndpoints(ctx, c); err != nil {
			return nil, err
		}
		zones = append(zones, firewall.Zone{Pool: s.OCI.StoragePool, Storage: append(storage[:len(storage):len(storage)], allow...)})
	}
	if s.OCI.EgressPool.IsValid() {
		zone := firewall.Zone{Pool: s.OCI.EgressPool, Storage: storage}
		for _, text := range s.OCI.EgressAllow {
			d, err := firewall.ParseDestination(text)
			if err != nil {
				return nil, &config.Error{Message: "egress_allow " + err.Error()}
			}
			zone.Egress = append(zone.Egress, d)
		}
		zones = append(zones, zone)
	}
	if len(zones) == 0 {
		return nil, &config.Error{Message: fmt.Sprintf("transport is %q, under which runs without network have none at all, and there is no egress_pool: there is nothing to do", s.OCI.Transport)}
	}
	return zones, nil
}

// storageEndpoints are the addresses of the bundles' backend.
func storageEndpoints(ctx context.Context, c *config.Config) ([]netip.AddrPort, error) {
	bundles, _ := c.BundleBackend()
	u, err := url.Parse(StorageURL(bundles))
	if err != nil {
		return nil, &config.Error{Message: fmt.Sprintf("backend '%s' has no endpoint", bundles.Name)}
	}
	port, _ := strconv.ParseUint(u.Port(), 10, 16)
	if u.Port() == "" {
		port = map[string]uint64{"http": 80, "https": 443}[u.Scheme]
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", u.Hostname())
	if err != nil || len(addresses) == 0 {
		return nil, fmt.Errorf("the endpoint of backend '%s' can't be resolved to an IPv4 address here: %w", bundles.Name, err)
	}
	var endpoints []netip.AddrPort
	for _, a := range addresses {
		endpoints = append(endpoints, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	return endpoints, nil
}
