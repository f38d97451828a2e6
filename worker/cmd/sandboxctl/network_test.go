package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
)

func storageConfig(t *testing.T, endpoint string) string {
	t.Helper()
	return put(t, "config.toml", fmt.Appendf(nil, "[worker.sandbox]\nruntime = \"oci\"\n[worker.sandbox.oci]\ntransport = \"storage\"\nstorage_pool = \"10.214.0.0/24\"\n"+
		"[storage.backends.s3]\ntype = \"s3\"\nendpoint = %q\nbucket = \"bundles\"\npath_style = true\naccess_key = \"KEYWORD\"\nsecret_key = \"KEYWORD\"\n", endpoint))
}

func TestTheFirewallIsPrintedWithTheStoragesAddressAndTheAllowedOnes(t *testing.T) {
	config := storageConfig(t, "http://192.0.2.7:9000")
	for _, flags := range [][]string{nil, {"--print"}} {
		r := sandboxctl(t, nil, append([]string{"network", "--config", config, "--allow", "192.0.2.8:53"}, flags...)...)
		if r.status != 0 || r.stderr != "" || !strings.HasPrefix(r.stdout, "table inet "+firewall.Table+"\n") {
			t.Fatalf("status %d\n%s%s", r.status, r.stdout, r.stderr)
		}
		for _, want := range []string{"ip saddr 10.214.0.0/24", "192.0.2.7 ct original proto-dst 9000 accept", "192.0.2.8 ct original proto-dst 53 accept", "ip saddr 10.214.0.0/24 drop"} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("no %q in\n%s", want, r.stdout)
			}
		}
		if strings.Contains(r.stdout, "KEYWORD") {
			t.Error("a key is printed")
		}
	}
}

func TestRunsWithNetworkAreHeldToWhatTheyAreAllowed(t *testing.T) {
	config := put(t, "config.toml", []byte("[worker.sandbox]\nruntime = \"oci\"\n[worker.sandbox.oci]\negress_pool = \"10.214.1.0/24\"\negress_allow = [\"192.0.2.53:53\"]\n"))
	r := sandboxctl(t, nil, "network", "--config", config)
	for _, want := range []string{"l4proto udp ct original ip daddr 192.0.2.53 ct original proto-dst 53 accept", "ip saddr 10.214.1.0/24 drop"} {
		if r.status != 0 || !strings.Contains(r.stdout, want) || strings.Contains(r.stdout, "10.213") {
			t.Errorf("status %d, no %q in\n%s%s", r.status, want, r.stdout, r.stderr)
		}
	}
}

func TestAFirewallThatCantBeMadeIsOneLine(t *testing.T) {
	config := storageConfig(t, "http://192.0.2.7:9000")
	mount := put(t, "mount.toml", []byte("[worker.sandbox]\nruntime = \"oci\"\n"))
	for name, c := range map[string]struct {
		args   string
		status int
		want   string
	}{
		"two deeds":              {"network --apply --remove --config " + config, ExitUsage, "give one of --print, --apply and --remove"},
		"an address of no port":  {"network --allow 192.0.2.1 --config " + config, ExitUsage, `--allow "192.0.2.1", want an IPv4 address and a port`},
		"an address of IPv6":     {"network --allow [::1]:53 --config " + config, ExitUsage, "want an IPv4 address and a port"},
		"an address in the pool": {"network --allow 10.214.0.9:53 --config " + config, ExitUsage, "is an address of the pool"},
		"another runtime":        {"network --runtime bwrap --config " + config, ExitUsage, `runtime is "bwrap", which makes no networks: there is nothing to do`},
		"another transport":      {"network --config " + mount, ExitUsage, `transport is "mount", under which runs without network have none at all, and there is no egress_pool: there is nothing to do`},
		"a name of nobody":       {"network --config " + storageConfig(t, "http://storage.invalid:9000"), ExitFailed, "the endpoint of backend 's3' can't be resolved to an IPv4 address here"},
	} {
		r := sandboxctl(t, nil, strings.Fields(c.args)...)
		if r.status != c.status || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: status %d, %q %q, want %d %q", name, r.status, r.stdout, r.stderr, c.status, c.want)
		}
	}
}

func TestWithoutNftTheFirewallSaysWhatToInstall(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: who is not root is told so first")
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if _, err := os.Stat(filepath.Join(dir, "nft")); err == nil {
			t.Skip("not run: nft stands in " + dir)
		}
	}
	r := sandboxctl(t, []string{"PATH=/nonexistent"}, "network", "--apply", "--config", storageConfig(t, "http://192.0.2.7:9000"))
	if r.status != ExitFailed || !strings.Contains(r.stderr, "install nftables") {
		t.Errorf("status %d, %q", r.status, r.stderr)
	}
}

func TestAnnouncingTheFirewallToNobodyButRootIsRefused(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("not run: this is root")
	}
	r := sandboxctl(t, nil, "network", "--apply", "--config", storageConfig(t, "http://192.0.2.7:9000"))
	if r.status != ExitFailed || !strings.Contains(r.stderr, "only root can change the host's firewall") {
		t.Errorf("status %d, %q", r.status, r.stderr)
	}
}

// The table is made in a network namespace of the test's own, twice, and
// removed twice.
func TestTheFirewallIsInstalledAndRemovedHoweverOften(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: only root can make a network namespace with a firewall")
	}
	if _, err := findNft(); err != nil {
		t.Skip("not run: ", err)
	}
	config := storageConfig(t, "http://192.0.2.7:9000")
	script := `set -e
"$1" network --apply --config "$2"; nft list table inet "$3" | grep -c 'accept$'
"$1" network --apply --config "$2"; nft list table inet "$3" | grep -c 'accept$'
"$1" network --remove; "$1" network --remove
nft list tables | grep -c "$3" || true`
	cmd := exec.CommandContext(t.Context(), "unshare", "-n", "sh", "-c", script, "sh", built(t, "sandboxctl"), config, firewall.Table)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "unshare:") || strings.Contains(string(out), "cache initialization failed") {
		t.Skip("not run: no network namespace with a firewall can be made here: ", string(out))
	}
	installed := "installed table inet batlehub_sandbox: networks of 10.214.0.0/24 reach 192.0.2.7:9000 and nothing else\n"
	removed := "removed table inet batlehub_sandbox\n"
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) < 4 || lines[1] != lines[3] || string(out) != installed+lines[1]+"\n"+installed+lines[1]+"\n"+removed+removed+"0\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
