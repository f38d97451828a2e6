package targets

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // what the chart renders
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
)

// rendered is what the chart makes in the sandbox namespace.
//
//go:embed kubernetes.yaml
var rendered string

// The addresses and names of rendered that a session has of its own.
const (
	renderedAddress   = "192.0.2.10/32"
	renderedPort      = "port: 9000"
	renderedNamespace = "namespace: batlehub-sandbox"
	workerAccount     = "batlehub-worker"
)

// cluster is a cluster as whoever may make namespaces sees it. Nothing of it is
// handed to a runtime.
type cluster struct {
	config *rest.Config
	api    *client.Clientset
}

func connect(kubeconfig string) (*cluster, error) {
	if reason, not := strings.CutPrefix(kubeconfig, "not run: "); not || kubeconfig == "" {
		if reason == "" {
			reason = `no cluster was named (eval "$(scripts/cluster.sh env)" after scripts/cluster.sh up)`
		}
		return nil, fmt.Errorf("%w: %s", ErrNotRun, reason)
	}
	config, _, err := kubernetes.Connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	api, err := client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &cluster{config, api}, nil
}

func (c *cluster) version() (string, error) {
	v, err := c.api.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("%w: the cluster does not answer: %w", ErrNotRun, err)
	}
	return v.GitVersion, nil
}

// hasClass says why no pod can be of a runtime class.
func (c *cluster) hasClass(ctx context.Context, class string) error {
	if class == "" {
		return nil
	}
	_, err := c.api.NodeV1().RuntimeClasses().Get(ctx, class, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: the cluster has no runtime class %s", ErrNotRun, class)
	}
	return err
}

// resolvers are the cluster's: a service by the name that every cluster has it
// under, and the pods behind it, which the policies let a run ask.
func (c *cluster) resolvers(ctx context.Context) ([]netip.AddrPort, error) {
	const name, port = "kube-dns", 53
	service, err := c.api.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("finding the cluster's resolver: %w", err)
	}
	pods, err := c.api.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=" + name})
	if err != nil {
		return nil, fmt.Errorf("finding the cluster's resolver: %w", err)
	}
	addresses := []string{service.Spec.ClusterIP}
	for _, pod := range pods.Items {
		addresses = append(addresses, pod.Status.PodIP)
	}
	var list []netip.AddrPort
	for _, a := range addresses {
		if address, err := netip.ParseAddr(a); err == nil {
			list = append(list, netip.AddrPortFrom(address, port))
		}
	}
	return list, nil
}

// clusterAccess is what a worker has: one namespace, and a token of the account
// that the chart binds the Role to. It goes to worker processes, by a file.
type clusterAccess struct {
	Host, Namespace, Token string
	CA                     []byte
}

func (a clusterAccess) config() *rest.Config {
	return &rest.Config{Host: a.Host, BearerToken: a.Token, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA}}
}

// namespace is one that a session's pods are made in.
type namespace struct{ access clusterAccess }

// namespace makes the session's namespace once: with the admission of Pod
// Security "restricted" as an operator is told to have it, or lax, in which a
// pod that is broken can be made to be seen.
func (b *kubernetesBase) namespace(ctx context.Context, s conformance.Setup, broken podBreakage) (*namespace, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, level := "sandbox-conformance-"+s.Token, "restricted"
	switch {
	case broken.open:
		name += "-open"
	case broken.edit != nil:
		name, level = name+"-lax", "privileged"
	}
	if n := b.namespaces[name]; n != nil {
		return n, nil
	}
	n, err := b.makeNamespace(ctx, name, level)
	if err != nil {
		return nil, fmt.Errorf("making the namespace %s: %w", name, err)
	}
	if broken.open {
		err = b.cluster.removePolicies(ctx, name)
	} else if level != "restricted" {
		// Its admission has pods have limits, too.
		err = b.cluster.removeQuotas(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	b.namespaces[name] = n
	return n, nil
}

func (b *kubernetesBase) makeNamespace(ctx context.Context, name, level string) (*namespace, error) {
	api := b.cluster.api
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}}
	if _, err := api.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	address := b.server.address
	text := strings.NewReplacer(
		renderedAddress, address.Addr().String()+"/32", renderedPort, fmt.Sprintf("port: %d", address.Port()), renderedNamespace, "namespace: "+name,
	).Replace(rendered)
	if err := b.cluster.apply(ctx, name, text); err != nil {
		return nil, errors.Join(err, b.cluster.removeNamespace(context.WithoutCancel(ctx), name))
	}
	seconds := int64((24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := api.CoreV1().ServiceAccounts(name).CreateToken(ctx, workerAccount, request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &namespace{clusterAccess{
		Host: b.cluster.config.Host, CA: b.cluster.config.CAData, Namespace: name, Token: token.Status.Token,
	}}, nil
}

// apply makes every object of a text in a namespace.
func (c *cluster) apply(ctx context.Context, namespace, text string) error {
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err == nil {
			err = c.create(ctx, namespace, object)
		}
		if err != nil {
			return err
		}
	}
}

func (c *cluster) create(ctx context.Context, namespace string, object k8sruntime.Object) (err error) {
	var o metav1.CreateOptions
	switch object := object.(type) {
	case *corev1.ServiceAccount:
		_, err = c.api.CoreV1().ServiceAccounts(namespace).Create(ctx, object, o)
	case *corev1.ResourceQuota:
		_, err = c.api.CoreV1().ResourceQuotas(namespace).Create(ctx, object, o)
	case *rbacv1.Role:
		_, err = c.api.RbacV1().Roles(namespace).Create(ctx, object, o)
	case *rbacv1.RoleBinding:
		_, err = c.api.RbacV1().RoleBindings(namespace).Create(ctx, object, o)
	case *networkingv1.NetworkPolicy:
		_, err = c.api.NetworkingV1().NetworkPolicies(namespace).Create(ctx, object, o)
	default:
		return fmt.Errorf("nothing of the chart's is a %T", object)
	}
	return err
}

func (c *cluster) removePolicies(ctx context.Context, namespace string) error {
	return c.api.NetworkingV1().NetworkPolicies(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

func (c *cluster) removeQuotas(ctx context.Context, namespace string) error {
	return c.api.CoreV1().ResourceQuotas(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// removeNamespace ends a namespace with whatever is in it, its pods at once.
func (c *cluster) removeNamespace(ctx context.Context, name string) error {
	now := int64(0)
	pods := c.api.CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	err := c.api.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(pods, err)
}

// pods are the pods of this session's namespaces, the runtime's and others.
func (b *kubernetesBase) pods(ctx context.Context, s conformance.Setup) ([]corev1.Pod, error) {
	b.mu.Lock()
	var names []string
	for name := range b.namespaces {
		if strings.Contains(name, s.Token) {
			names = append(names, name)
		}
	}
	b.mu.Unlock()
	var all []corev1.Pod
	for _, name := range names {
		list, err := b.cluster.api.CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// loader is one call of the program that brings images to nodes.
func (b *kubernetesBase) loader(ctx context.Context, verb string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, b.Load, append([]string{verb}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", b.Load, verb, withStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}
