package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
)

func (d *document) decodeOCI(o *OCI) error {
	at := func(name string) string { return strings.ReplaceAll(tableOCI, ".", sep) + sep + name }
	*o = OCI{
		Engine: d.k.String(at("engine")), Binary: d.k.String(at("binary")), Image: d.k.String(at("image")),
		Transport: d.k.String(at("transport")), ExtraArgs: d.k.Strings(at("extra_args")), Pull: d.k.String(at("pull")),
		Network: d.k.String(at("network")), OrphanAfterSecs: d.k.Int64(at("orphan_after_secs")),
	}
	for _, choice := range []struct {
		key, value string
		of         []string
	}{
		{"engine", o.Engine, []string{"podman", "docker"}},
		{"transport", o.Transport, []string{"mount", "storage"}},
		{"pull", o.Pull, []string{"never", "if-absent"}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			return d.refuse(at(choice.key), "%s %.32q is not known; one of %s", choice.key, choice.value, strings.Join(choice.of, ", "))
		}
	}
	if !d.set(at("binary")) {
		o.Binary = o.Engine
	}
	if o.Binary == "" {
		return d.refuse(at("binary"), "worker.sandbox.oci.binary is empty; leave the key out for the engine's own name")
	}
	if err := d.checkProgram(at("binary"), o.Binary, o.Engine); err != nil {
		return err
	}
	if fault := networkFault(o.Network); fault != "" {
		return d.refuse(at("network"), "network %.64q %s; name a network of the engine's, or leave the key out for its default", o.Network, fault)
	}
	var err error
	if o.StoragePool, err = parsePool(d.k.String(at("storage_pool"))); err != nil {
		return d.refuse(at("storage_pool"), "storage_pool %.64q %v; want a private IPv4 network of /8 to /26, such as \"10.213.0.0/16\"", d.k.String(at("storage_pool")), err)
	}
	return d.decodeEgress(o, at)
}

func (d *document) decodeEgress(o *OCI, at func(string) string) (err error) {
	o.EgressAllow = d.k.Strings(at("egress_allow"))
	text := d.k.String(at("egress_pool"))
	switch {
	case text == "" && len(o.EgressAllow) > 0:
		return d.refuse(at("egress_allow"), "egress_allow has no effect without egress_pool, out of which runs with network get networks that it bounds")
	case text == "":
		return nil
	case o.Network != "":
		return d.refuse(at("egress_pool"), "egress_pool and network: a run with network joins one or the other; leave one of them out")
	}
	if o.EgressPool, err = parsePool(text); err != nil {
		return d.refuse(at("egress_pool"), "egress_pool %.64q %v; want a private IPv4 network of /8 to /26, such as \"10.214.0.0/16\"", text, err)
	}
	if o.EgressPool.Overlaps(o.StoragePool) {
		return d.refuse(at("egress_pool"), "egress_pool %s overlaps storage_pool %s", o.EgressPool, o.StoragePool)
	}
	for _, allow := range o.EgressAllow {
		if network, alone := masked(allow); network != "" {
			return d.refuse(at("egress_allow"), "egress_allow %.64q has address bits behind its mask; want %s, or %s for that address alone", allow, network, alone)
		}
		if _, err := firewall.ParseDestination(allow); err != nil {
			return d.refuse(at("egress_allow"), "egress_allow %v", err)
		}
	}
	return nil
}

// masked is what a destination with address bits behind its mask may have meant:
// the network, and the address alone. Both are empty for any other.
func masked(destination string) (network, alone string) {
	text, port, hasPort := strings.Cut(destination, ":")
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p == p.Masked() {
		return "", ""
	}
	if hasPort {
		port = ":" + port
	}
	return p.Masked().String() + port, p.Addr().String() + port
}

// networkFault says why runs with network can't be put into a network.
func networkFault(network string) string {
	switch {
	case network == "host", strings.HasPrefix(network, "container:"), strings.HasPrefix(network, "ns:"):
		return "would put a scanner beside what it must not reach"
	case network == "none":
		return "would leave scanners that need a network without one"
	case strings.HasPrefix(network, "-"), strings.ContainsFunc(network, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "is no network's name"
	}
	return ""
}

// parsePool reads the addresses that the networks of runs are cut from.
func parsePool(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, errors.New("is no network")
	case !p.Addr().Is4():
		return p, errors.New("is not IPv4")
	case p != p.Masked():
		return p, fmt.Errorf("has address bits behind its mask (%s has none)", p.Masked())
	case p.Bits() < 8 || p.Bits() > 26:
		return p, fmt.Errorf("is a /%d", p.Bits())
	case !p.Addr().IsPrivate():
		return p, errors.New("is not private")
	}
	return p, nil
}
