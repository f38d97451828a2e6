// Package cluster is the real cluster that scripts/cluster.sh has started, with
// a namespace in it as the chart makes one.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
)

// Cluster is a cluster and one namespace of it.
type Cluster struct {
	script, kubeconfig string
	// Namespace is where pods are made.
	Namespace string
	storage   netip.AddrPort
	manifest  string
}

// ErrNotRun is wrapped where there is no cluster, with the reason.
var ErrNotRun = errors.New("not run")

// manifest is what the chart renders for addressOf and portOf in namespaceOf.
const (
	manifest    = "conformance/targets/kubernetes.yaml"
	addressOf   = "192.0.2.10/32"
	portOf      = "port: 9000"
	namespaceOf = "namespace: batlehub-sandbox"
)

// Open makes a namespace whose pods may reach the storage at an address. root
// is the checkout.
func Open(ctx context.Context, root, namespace string, storage netip.AddrPort) (*Cluster, error) {
	kubeconfig := os.Getenv("BATLEHUB_TEST_KUBECONFIG")
	if reason, not := strings.CutPrefix(kubeconfig, "not run: "); not || kubeconfig == "" {
		if reason == "" {
			reason = `no cluster; eval "$(scripts/cluster.sh env)" after scripts/cluster.sh up`
		}
		return nil, fmt.Errorf("%w: %s", ErrNotRun, reason)
	}
	text, err := os.ReadFile(filepath.Join(root, manifest))
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		script: filepath.Join(root, "scripts/cluster.sh"), kubeconfig: kubeconfig, Namespace: namespace, storage: storage, manifest: string(text),
	}
	if _, err := c.Kubectl(ctx, "", "create", "namespace", namespace); err != nil {
		return nil, err
	}
	account := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: " + kubernetes.DefaultServiceAccount + "}\nautomountServiceAccountToken: false\n"
	if err := c.Apply(ctx, account); err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Config is the runtime's configuration in the namespace.
func (c *Cluster) Config() (kubernetes.Config, error) {
	api, _, err := kubernetes.Connect(c.kubeconfig)
	return kubernetes.Config{API: api, Namespace: c.Namespace}, err
}

// Guard applies what the chart renders, the network policies among it.
func (c *Cluster) Guard(ctx context.Context) error {
	return c.Apply(ctx, strings.NewReplacer(
		addressOf, c.storage.Addr().String()+"/32", portOf, fmt.Sprintf("port: %d", c.storage.Port()), namespaceOf, "namespace: "+c.Namespace,
	).Replace(c.manifest))
}

// Apply applies a text in the namespace.
func (c *Cluster) Apply(ctx context.Context, text string) error {
	_, err := c.Kubectl(ctx, text, "-n", c.Namespace, "apply", "-f", "-")
	return err
}

// Kubectl is one call of kubectl's.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return c.call(ctx, stdin, append([]string{"kubectl"}, args...)...)
}

// Image brings the image of a directory to the nodes and returns its name, by
// digest.
func (c *Cluster) Image(ctx context.Context, directory, name string) (string, error) {
	return c.call(ctx, "", "image", directory, name)
}

// Unload takes an image from the nodes.
func (c *Cluster) Unload(ctx context.Context, image string) error {
	_, err := c.call(ctx, "", "unload", image)
	return err
}

func (c *Cluster) call(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", append([]string{c.script}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("%w: %.500s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("cluster.sh %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Close removes the namespace with whatever is in it.
func (c *Cluster) Close(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "", "delete", "namespace", c.Namespace, "--wait=false")
	return err
}
