package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
)

// runTime bounds one question to a program.
const runTime = 15 * time.Second

// run asks a program, with this process's environment: it is the engine that
// the operator's own shell would reach.
func run(ctx context.Context, path string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // the configured program
	cmd.WaitDelay = time.Second
	out, said := keep{most: 1 << 20}, limited{}
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	return out.String(), said.String(), err
}

// keep keeps the first bytes written to it.
type keep struct {
	strings.Builder
	most int
}

func (k *keep) Write(p []byte) (int, error) {
	k.Builder.Write(p[:min(len(p), max(0, k.most-k.Len()))])
	return len(p), nil
}

// subordinateIDs counts the ids that a file of /etc grants a user, who may be
// named there or numbered.
func subordinateIDs(path, user string, uid int) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	var count int64
	for line := range strings.Lines(string(b)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || fields[0] != user && (uid == 0 || fields[0] != strconv.Itoa(uid)) {
			continue
		}
		if n, err := strconv.ParseInt(fields[2], 10, 64); err == nil && n > 0 {
			count += n
		}
	}
	return count
}

// propagation looks whether podman finds the networks again that it made.
func (h Host) propagation(f engineFacts) Check {
	const name = "mount propagation"
	if f.rootless || !h.OCI.LosesNetworks() {
		return Check{Name: name, Outcome: Pass, Detail: "podman takes the networks of its containers away again"}
	}
	check := Check{
		Name: name, Outcome: Caution, Detail: "the root mount is not shared, and podman leaves a network behind for every container with one",
		Fixes: []string{"mount --make-rshared /, as root and whenever this host starts (systemd does so itself)"},
	}
	if h.storageNetworks() || h.Sandbox.OCI.EgressPool.IsValid() {
		check.Outcome = Fail
	}
	return check
}

// firewall looks for the table without which a run's own network leads to
// anywhere.
func (h Host) firewall(ctx context.Context, f engineFacts) Check {
	const name = "firewall"
	fix := []string{"sandboxctl network --apply, as root and with the same --config"}
	if f.rootless {
		return Check{Name: name, Outcome: Skipped, Detail: "a rootless engine's networks are not this host's"}
	}
	zones, err := h.Zones(ctx)
	var ruleset string
	if err == nil {
		ruleset, err = firewall.Ruleset(zones...)
	}
	if err != nil {
		return Check{Name: name, Outcome: Fail, Detail: err.Error(), Fixes: []string{"correct the endpoint of the bundle backend in [storage]"}}
	}
	if h.EUID != 0 {
		return Check{Name: name, Outcome: Skipped, Detail: "only root can look at it; the probe sees whether it holds"}
	}
	nft, err := h.Look("nft")
	if err != nil {
		return Check{Name: name, Outcome: Fail, Detail: "there is no program nft, and so no firewall table", Fixes: append([]string{"apt-get install nftables"}, fix...)}
	}
	listed, said, err := h.Run(ctx, nft, "list", "table", "inet", firewall.Table)
	if err != nil {
		return Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("the table inet %s is not there%s", firewall.Table, quoted(said)), Fixes: fix}
	}
	if rule := firewall.Lacks(listed, ruleset); rule != "" {
		return Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("the table inet %s is not what the configuration asks for now: it lacks %q", firewall.Table, rule), Fixes: fix}
	}
	return Check{Name: name, Outcome: Pass, Detail: fmt.Sprintf("the table inet %s holds runs to the storage and to what they are allowed", firewall.Table)}
}

// storageNetworks says whether this runtime is the configured one and makes
// networks that reach the storage alone.
func (h Host) storageNetworks() bool { return h.Sandbox.Runtime == "oci" && h.Sandbox.StorageHop() }
