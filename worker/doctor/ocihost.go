package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
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

// firewall looks for the table without which a run's own network leads to
// anywhere.
func (h Host) firewall(ctx context.Context, f engineFacts) Check {
	const name = "firewall"
	fix := []string{"sandboxctl network --apply, as root and with the same --config"}
	if f.rootless {
		return Check{Name: name, Outcome: Skipped, Detail: "a rootless engine's networks are not this host's"}
	}
	endpoints, err := h.Endpoints(ctx)
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
	listed, said, err := h.Run(ctx, nft, "list", "table", "inet", h.OCI.FirewallTable)
	if err != nil {
		return Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("the table inet %s is not there%s", h.OCI.FirewallTable, quoted(said)), Fixes: fix}
	}
	if pool := h.Sandbox.OCI.StoragePool.String(); !strings.Contains(listed, "ip saddr "+pool+" drop") {
		return Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("the table inet %s is for another pool than %s", h.OCI.FirewallTable, pool), Fixes: fix}
	}
	for _, e := range endpoints {
		if !strings.Contains(listed, fmt.Sprintf("ip daddr %s ct original proto-dst %d accept", e.Addr(), e.Port())) {
			return Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("the table inet %s does not let %s through, where the storage is now", h.OCI.FirewallTable, e), Fixes: fix}
		}
	}
	return Check{Name: name, Outcome: Pass, Detail: fmt.Sprintf("the table inet %s keeps runs without network from all but the storage", h.OCI.FirewallTable)}
}
