// Package firewall makes the nftables ruleset that bounds the networks of the oci
// runtime's runs: which are cut from pools, so that a few rules about the pools
// hold for every run's network before it is made.
package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Table is the nftables table that a ruleset makes.
const Table = "batlehub_sandbox"

// RunBits is the size of a run's own network: the smallest in which every
// engine finds an address for the bridge and one for the container.
const RunBits = 29

// Zone is one pool of networks, and all that they reach.
type Zone struct {
	// Pool is what the networks are cut from.
	Pool netip.Prefix
	// Storage is where the storage listens. An endpoint behind a port that
	// this host forwards is named as the sandbox names it.
	Storage []netip.AddrPort
	// Egress is what runs with network are allowed besides it.
	Egress []Destination
}

// Destination is what a zone may reach by TCP and UDP.
type Destination struct {
	// Prefix is one address, or the network of some. Only the former can be
	// an address of this host's own, or a link-local one as clouds have for
	// their credentials: nobody means these when a network is named.
	Prefix netip.Prefix
	// Port is 0 for any.
	Port uint16
}

// Reaches says whether a destination lets an address through.
func (d Destination) Reaches(address netip.AddrPort) bool {
	return d.Prefix.Contains(address.Addr()) && (d.Port == 0 || d.Port == address.Port())
}

// ParseDestination reads "IP", "IP:PORT", "IP/BITS" or "IP/BITS:PORT".
func ParseDestination(text string) (Destination, error) {
	address, port, hasPort := strings.Cut(text, ":")
	if !strings.Contains(address, "/") {
		address += "/32"
	}
	prefix, err := netip.ParsePrefix(address)
	d := Destination{Prefix: prefix}
	if hasPort && err == nil {
		var at netip.AddrPort
		at, err = netip.ParseAddrPort("0.0.0.0:" + port)
		d.Port = at.Port()
	}
	if err == nil && hasPort && d.Port == 0 {
		err = fmt.Errorf("port 0 is none")
	}
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return Destination{}, fmt.Errorf("%.64q is not IP[/BITS][:PORT] of IPv4, as in 192.0.2.0/24:443", text)
	}
	return d, nil
}

func (d Destination) check() error {
	if !d.Prefix.IsValid() || !d.Prefix.Addr().Is4() || d.Prefix != d.Prefix.Masked() {
		return fmt.Errorf("%s is not an IPv4 network", d.Prefix)
	}
	return nil
}

// String is what ParseDestination reads.
func (d Destination) String() string {
	text := strings.TrimSuffix(d.Prefix.String(), "/32")
	if d.Port != 0 {
		text += fmt.Sprintf(":%d", d.Port)
	}
	return text
}

// Ruleset is the input of nft by which the networks of each zone reach what the
// zone names and nothing else, and are reached by nobody: for `nft -f -` on the host whose bridges these networks are, as root. It replaces
// the table of an earlier one in the same instant.
//
// What is forbidden gets no answer: a refusal by this host could not be told
// from one by a canary on it. The chains stand before those of the engines (at
// priority 0). What they accept the engines may still refuse.
func Ruleset(zones ...Zone) (string, error) {
	var replies, to, hosts, networks, from []string
	for _, z := range zones {
		if err := z.check(zones); err != nil {
			return "", err
		}
		replies = append(replies, fmt.Sprintf("ip daddr %s ct state established ct direction reply accept", z.Pool))
		to = append(to, fmt.Sprintf("ip daddr %s drop", z.Pool))
		one, many := z.accepts()
		hosts, networks = append(hosts, one...), append(networks, many...)
		from = append(from, fmt.Sprintf("ip saddr %s drop", z.Pool))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s\ndelete table inet %s\ntable inet %s {\n", Table, Table, Table)
	writeChain(&b, "forward", replies, hosts, to, networks, from)
	// Networks are not accepted here: they mean no address of this host's.
	writeChain(&b, "input", hosts, from)
	writeChain(&b, "output", replies, to)
	b.WriteString("}\n")
	return b.String(), nil
}

func (z Zone) check(all []Zone) error {
	if err := CheckPool(z.Pool); err != nil {
		return err
	}
	overlapping := 0
	for _, other := range all {
		if z.Pool.Overlaps(other.Pool) {
			overlapping++
		}
		for _, e := range z.Storage {
			if other.Pool.Contains(e.Addr()) {
				return fmt.Errorf("%s is an address of the pool %s, which nobody may reach", e, other.Pool)
			}
		}
		for _, d := range z.Egress {
			if other.Pool.Contains(d.Prefix.Addr()) && d.Prefix.Bits() >= other.Pool.Bits() {
				return fmt.Errorf("%s is in the pool %s, which nobody may reach", d, other.Pool)
			}
		}
	}
	if overlapping > 1 { // it overlaps itself
		return fmt.Errorf("the pool %s overlaps another one", z.Pool)
	}
	for _, e := range z.Storage {
		if !e.IsValid() || !e.Addr().Is4() || e.Port() == 0 {
			return fmt.Errorf("%s is not an IPv4 address and a port", e)
		}
	}
	for _, d := range z.Egress {
		if err := d.check(); err != nil {
			return err
		}
	}
	return nil
}

// accepts are the rules of what a zone reaches, apart for addresses and for
// networks.
func (z Zone) accepts() (hosts, networks []string) {
	for _, e := range z.Storage {
		hosts = append(hosts, fmt.Sprintf(
			"ip saddr %s meta l4proto tcp ct original ip daddr %s ct original proto-dst %d accept", z.Pool, e.Addr(), e.Port()))
	}
	for _, d := range z.Egress {
		port := ""
		if d.Port != 0 {
			port = fmt.Sprintf(" ct original proto-dst %d", d.Port)
		}
		for _, protocol := range []string{"tcp", "udp"} {
			rule := fmt.Sprintf("ip saddr %s meta l4proto %s ct original ip daddr %s%s accept", z.Pool, protocol, strings.TrimSuffix(d.Prefix.String(), "/32"), port)
			if d.Prefix.IsSingleIP() {
				hosts = append(hosts, rule)
			} else {
				networks = append(networks, rule)
			}
		}
	}
	if len(networks) > 0 {
		// What this host translates to another address was named by one of its
		// own, as published ports are, or by what it serves metadata at.
		networks = append([]string{
			fmt.Sprintf("ip saddr %s ct status dnat drop", z.Pool),
			fmt.Sprintf("ip saddr %s ip daddr 169.254.0.0/16 drop", z.Pool),
		}, sorted(networks)...)
	}
	return sorted(hosts), networks
}

// Removal is the input of nft that removes the table, if it is there.
func Removal() string { return fmt.Sprintf("table inet %s\ndelete table inet %s\n", Table, Table) }

// CheckPool says what is wrong with a pool.
func CheckPool(pool netip.Prefix) error {
	if !pool.IsValid() || !pool.Addr().Is4() || pool != pool.Masked() || pool.Bits() < 8 || pool.Bits() > RunBits {
		return fmt.Errorf("the pool %s is not an IPv4 network of 8 to %d bits", pool, RunBits)
	}
	return nil
}

// Lacks is the first rule of a ruleset that is not in what nft lists of its
// table, which is empty when all are there.
func Lacks(listed, ruleset string) string {
	for line := range strings.Lines(ruleset) {
		rule := strings.TrimSpace(line)
		if (strings.HasSuffix(rule, "accept") || strings.HasSuffix(rule, "drop")) && !strings.Contains(listed, rule) {
			return rule
		}
	}
	return ""
}

func sorted(rules []string) []string { return slices.Compact(slices.Sorted(slices.Values(rules))) }

func writeChain(b *strings.Builder, hook string, groups ...[]string) {
	fmt.Fprintf(b, "\tchain %s {\n\t\ttype filter hook %s priority -10; policy accept;\n", hook, hook)
	for _, rule := range slices.Concat(groups...) {
		fmt.Fprintf(b, "\t\t%s\n", rule)
	}
	b.WriteString("\t}\n")
}
