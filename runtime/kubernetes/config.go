package kubernetes

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Name is the runtime's name in configuration.
const Name = "kubernetes"

// DefaultServiceAccount is the service account of pods whose configuration
// names none. It has no token and no role.
const DefaultServiceAccount = "batlehub-sandbox"

// Config configures the runtime.
type Config struct {
	// API is the API server and who this worker is to it, as Connect returns
	// it. It is copied, and its rate limits and warnings are set by this
	// package; a WrapTransport of the caller's sees every request.
	API *rest.Config
	// Namespace is where pods are made. It has to be named.
	Namespace string
	// ServiceAccount is the pods'; empty means DefaultServiceAccount.
	ServiceAccount string
	// Image is what runs that name no image are run from; empty means that
	// such runs are refused.
	Image string
	// RuntimeClass is the class of every pod, such as one of gVisor or Kata;
	// empty means the cluster's default.
	RuntimeClass string
	// OwnKernel says that RuntimeClass gives each pod a kernel of its own that
	// is gVisor's, whose mounts have no nodev: the probe then asks for what
	// holds there instead.
	OwnKernel bool
	// NodeSelector, Tolerations, Affinity and PriorityClass say which nodes
	// pods may be scheduled on, and before whom.
	NodeSelector  map[string]string
	Tolerations   []corev1.Toleration
	Affinity      *corev1.Affinity
	PriorityClass string
	// ImagePullSecrets are names of secrets of Namespace.
	ImagePullSecrets []string
	// Annotations are put on every pod.
	Annotations map[string]string
	// Owner is the worker's own pod, whose end takes its sandboxes with it; nil
	// where there is none in Namespace. An owner in another namespace would
	// have the cluster remove every pod at once.
	Owner *metav1.OwnerReference
	// Hop moves the bundles. It stays its owner's to close.
	Hop *bundle.Hop
	// Canaries are addresses that no run without network may reach; nil means
	// DefaultCanaries. Without any, a probe could not see its network wall.
	Canaries []netip.AddrPort
	// Worker is the id that probes are labelled with; empty means "probe".
	Worker string
}

// DefaultCanaries is one address that everybody with a network reaches.
var DefaultCanaries = []netip.AddrPort{netip.MustParseAddrPort("1.1.1.1:53")}

func (c Config) withDefaults() Config {
	if c.ServiceAccount == "" {
		c.ServiceAccount = DefaultServiceAccount
	}
	if c.Canaries == nil {
		c.Canaries = DefaultCanaries
	}
	if c.Worker == "" {
		c.Worker = "probe"
	}
	return c
}

var (
	errNoHop       = errors.New("pods need a storage backend to move bundles through")
	errNoAPI       = errors.New("there is no API server to make pods with")
	errNoNamespace = errors.New("there is no namespace to make pods in")
)

// check refuses what no pod could be made from.
func (c Config) check() error {
	switch {
	case c.API == nil:
		return errNoAPI
	case c.Hop == nil:
		return errNoHop
	case c.Namespace == "":
		return errNoNamespace
	}
	if err := c.checkNames(); err != nil {
		return err
	}
	if c.Image != "" {
		if _, err := ParseImage(c.Image); err != nil {
			return err
		}
	}
	for _, canary := range c.Canaries {
		if _, err := wire.ParseCanary(canary.String()); err != nil {
			return err
		}
	}
	return nil
}

// checkNames refuses names that no object of the API can have.
func (c Config) checkNames() error {
	if len(validation.IsDNS1123Label(c.Namespace)) > 0 {
		return fmt.Errorf("namespace %.64q is no namespace's name", c.Namespace)
	}
	names := map[string]string{"service account": c.ServiceAccount, "runtime class": c.RuntimeClass, "priority class": c.PriorityClass}
	for _, secret := range c.ImagePullSecrets {
		names["pull secret "+secret] = secret
		if secret == "" {
			return errors.New("an image pull secret has no name")
		}
	}
	for what, name := range names {
		if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("%s %.64q is no object's name", what, name)
		}
	}
	return nil
}
