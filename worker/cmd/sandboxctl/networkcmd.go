package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/worker/build"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

type networkFlags struct {
	apply, remove, print bool
	allow                []string
}

func (a *app) networkCommand() *cobra.Command {
	var f networkFlags
	c := &cobra.Command{
		Use: "network", Short: "Print or install the firewall of networks that runs have of their own", Args: exactly(0, ""),
		Long: `Under runtime "oci" with transport "storage" a run without network has a network
of its own, which must lead to the storage and nowhere else; with egress_pool a
run with network has one that leads to egress_allow besides. The firewall table
"` + firewall.Table + `" of this host says so. This prints its ruleset, or installs it as
root through nft, in place of an earlier one. It lasts until the host restarts,
and has to be installed anew when the storage's address changes. Nothing else
installs it: without it, the probe fails.`,
		Example: `  sandboxctl network --config config.toml
  sudo sandboxctl network --config config.toml --apply`,
		RunE: func(c *cobra.Command, _ []string) error { return a.network(c.Context(), f) },
	}
	c.Flags().BoolVar(&f.print, "print", false, "print the ruleset, an input for nft -f - (the default)")
	c.Flags().BoolVar(&f.apply, "apply", false, "install the ruleset; needs root")
	c.Flags().BoolVar(&f.remove, "remove", false, "remove the table, if it is there; needs root")
	c.Flags().StringArrayVar(&f.allow, "allow", nil, "`IP:PORT` that such runs may reach besides the storage's addresses; may be given more than once")
	return c
}

// resolveTime bounds the resolving of the storage's name, and nftTime nft.
const (
	resolveTime = 10 * time.Second
	nftTime     = 10 * time.Second
)

func (a *app) network(ctx context.Context, f networkFlags) error {
	if f.print && f.apply || f.print && f.remove || f.apply && f.remove {
		return usagef("give one of --print, --apply and --remove")
	}
	var allow []netip.AddrPort
	for _, text := range f.allow {
		addr, err := netip.ParseAddrPort(text)
		if err != nil || !addr.Addr().Is4() {
			return usagef("--allow %q, want an IPv4 address and a port, as in 192.0.2.1:9000", text)
		}
		allow = append(allow, addr)
	}
	if f.remove {
		if err := nft(ctx, firewall.Removal()); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "removed table inet %s\n", firewall.Table)
		return err
	}
	conf, err := a.load()
	if err != nil {
		return err
	}
	resolving, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	zones, err := build.Zones(resolving, conf, allow)
	if err != nil {
		return err
	}
	rules, err := firewall.Ruleset(zones...)
	if err != nil {
		return &config.Error{Message: err.Error()}
	}
	if !f.apply {
		_, err := fmt.Fprint(a.stdout, rules)
		return err
	}
	if err := nft(ctx, rules); err != nil {
		return err
	}
	for _, z := range zones {
		if _, err := fmt.Fprintf(a.stdout, "installed table inet %s: networks of %s reach %s and nothing else\n", firewall.Table, z.Pool, reach(z)); err != nil {
			return err
		}
	}
	return nil
}

// reach names what a zone reaches.
func reach(z firewall.Zone) string {
	var words []string
	for _, a := range z.Storage {
		words = append(words, a.String())
	}
	for _, d := range z.Egress {
		words = append(words, d.String())
	}
	if len(words) == 0 {
		return "nothing at all"
	}
	return strings.Join(words, ", ")
}

// nft gives a ruleset to nft, which takes all of it or none.
func nft(ctx context.Context, rules string) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can change the host's firewall; run this as root, or give the printed ruleset to nft -f - as root")
	}
	path, err := findNft()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, nftTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-f", "-") //nolint:gosec // the system's nft
	cmd.Stdin = strings.NewReader(rules)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return fmt.Errorf("nft refused the ruleset: %w: %s", err, said)
	}
	return nil
}

// findNft looks where the PATH of services often does not.
func findNft() (string, error) {
	if path, err := exec.LookPath("nft"); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		path := filepath.Join(dir, "nft")
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
	}
	return "", errors.New("there is no program nft; install nftables (apt-get install nftables, or dnf install nftables)")
}
