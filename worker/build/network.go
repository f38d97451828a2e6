package build

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// FirewallTable is the nftables table of Firewall.
const FirewallTable = oci.FirewallTable

// Firewall is the ruleset by which runs without network reach their storage
// and nothing else, and the endpoints that it lets through: those of the
// bundles' backend, resolved, and the allowed ones. Its errors are one line.
func Firewall(ctx context.Context, c *config.Config, allow []netip.AddrPort) (string, []netip.AddrPort, error) {
	endpoints, err := StorageEndpoints(ctx, c)
	if err != nil {
		return "", nil, err
	}
	endpoints = append(endpoints, allow...)
	rules, err := oci.Firewall(c.Worker.Sandbox.OCI.StoragePool, endpoints)
	if err != nil {
		return "", nil, &config.Error{Message: err.Error()}
	}
	return rules, endpoints, nil
}

// RemoveFirewall is the ruleset that removes Firewall's, if it is there.
func RemoveFirewall() string {
	return fmt.Sprintf("table inet %s\ndelete table inet %s\n", FirewallTable, FirewallTable)
}

// StorageEndpoints are the addresses of the bundles' backend. A configuration
// whose runs need no firewall is a *config.Error.
func StorageEndpoints(ctx context.Context, c *config.Config) ([]netip.AddrPort, error) {
	s := c.Worker.Sandbox
	if s.Runtime != oci.Name {
		return nil, &config.Error{Message: fmt.Sprintf("runtime is %q, which makes no networks: there is nothing to do", s.Runtime)}
	}
	if !s.StorageHop() {
		return nil, &config.Error{Message: fmt.Sprintf("transport is %q, under which runs without network have none at all: there is nothing to do", s.OCI.Transport)}
	}
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
