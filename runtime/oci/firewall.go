package oci

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// FirewallTable is the nftables table that Firewall's ruleset makes.
const FirewallTable = "batlehub_sandbox"

// Firewall is the ruleset by which the networks of runs without network reach
// the storage and nothing else, and are reached by nobody: an input for
// `nft -f -` on the host whose bridges these networks are, as root. It replaces
// the table of an earlier one in the same instant.
//
// pool is Config.StoragePool and endpoints where the storage listens, IPv4
// alone; an endpoint behind a port that this host forwards is named as the
// sandbox names it. What is forbidden gets no answer: a refusal by this host
// could not be told from one by a canary on it.
//
// The chains stand before those of the engines (at priority 0). What they
// accept the engines may still refuse.
func Firewall(pool netip.Prefix, endpoints []netip.AddrPort) (string, error) {
	if err := checkPool(pool); err != nil {
		return "", err
	}
	var allowed []string
	for _, e := range endpoints {
		if !e.IsValid() || !e.Addr().Is4() || e.Port() == 0 {
			return "", fmt.Errorf("%s is not an IPv4 address and a port", e)
		}
		if pool.Contains(e.Addr()) {
			return "", fmt.Errorf("%s is an address of the pool %s, which nobody may reach", e, pool)
		}
		allowed = append(allowed, fmt.Sprintf(
			"ip saddr %s meta l4proto tcp ct original ip daddr %s ct original proto-dst %d accept", pool, e.Addr(), e.Port()))
	}
	slices.Sort(allowed)
	allowed = slices.Compact(allowed)
	replies := fmt.Sprintf("ip daddr %s ct state established ct direction reply accept", pool)
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s\ndelete table inet %s\ntable inet %s {\n", FirewallTable, FirewallTable, FirewallTable)
	writeChain(&b, "forward", append(append([]string{replies}, allowed...), from(pool), to(pool)))
	writeChain(&b, "input", append(slices.Clone(allowed), from(pool)))
	writeChain(&b, "output", []string{replies, to(pool)})
	b.WriteString("}\n")
	return b.String(), nil
}

func from(pool netip.Prefix) string { return fmt.Sprintf("ip saddr %s drop", pool) }
func to(pool netip.Prefix) string   { return fmt.Sprintf("ip daddr %s drop", pool) }

func writeChain(b *strings.Builder, hook string, rules []string) {
	fmt.Fprintf(b, "\tchain %s {\n\t\ttype filter hook %s priority -10; policy accept;\n", hook, hook)
	for _, r := range rules {
		fmt.Fprintf(b, "\t\t%s\n", r)
	}
	b.WriteString("\t}\n")
}
