package kubernetes

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// namespaceFile is where a pod finds the namespace that it is in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Connect returns the API server to make pods with and the namespace that goes
// with it: those of a kubeconfig file's current context or, if kubeconfig is
// empty, of the pod that this process runs in. Nothing is asked of the server.
func Connect(kubeconfig string) (api *rest.Config, namespace string, err error) {
	if kubeconfig != "" {
		return fromFile(kubeconfig)
	}
	api, err = rest.InClusterConfig()
	if err != nil {
		return nil, "", fmt.Errorf("this worker runs in no pod: %w", err)
	}
	b, err := os.ReadFile(namespaceFile)
	if err != nil {
		return nil, "", fmt.Errorf("finding this worker's namespace: %w", err)
	}
	return api, strings.TrimSpace(string(b)), nil
}

func fromFile(kubeconfig string) (*rest.Config, string, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{})
	api, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	return api, namespace, nil
}
