package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Kubernetes is [worker.sandbox.kubernetes].
type Kubernetes struct {
	// Kubeconfig is empty in a pod.
	Kubeconfig     string
	Namespace      string
	ServiceAccount string
	Image          string
	RuntimeClass   string
	OwnKernel      bool
	NodeSelector   map[string]string
	// Tolerations and Affinity are as in a pod's spec.
	Tolerations      []map[string]any
	Affinity         map[string]any
	PriorityClass    string
	ImagePullSecrets []string
	Annotations      map[string]string
	OrphanAfterSecs  int64
}

func (d *document) decodeKubernetes(k *Kubernetes) error {
	at := func(name string) string { return strings.ReplaceAll(tableKubernetes, ".", sep) + sep + name }
	*k = Kubernetes{
		Kubeconfig: d.k.String(at("kubeconfig")), Namespace: d.k.String(at("namespace")),
		ServiceAccount: d.k.String(at("service_account")), Image: d.k.String(at("image")),
		RuntimeClass: d.k.String(at("runtime_class")), OwnKernel: d.k.Bool(at("own_kernel")),
		PriorityClass: d.k.String(at("priority_class")), ImagePullSecrets: d.k.Strings(at("image_pull_secrets")),
		OrphanAfterSecs: d.k.Int64(at("orphan_after_secs")),
	}
	if k.ServiceAccount == "" {
		return d.refuse(at("service_account"), "worker.sandbox.kubernetes.service_account is empty; leave the key out for the default")
	}
	if k.Namespace != "" && !labelForm.MatchString(k.Namespace) {
		return d.refuse(at("namespace"), "namespace %.64q is no namespace's name; want 1 to 63 of a-z 0-9 - between letters or digits", k.Namespace)
	}
	names := map[string][]string{
		"service_account": {k.ServiceAccount}, "runtime_class": {k.RuntimeClass}, "priority_class": {k.PriorityClass},
		"image_pull_secrets": k.ImagePullSecrets,
	}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		for _, name := range names[key] {
			if !objectForm.MatchString(name) && (name != "" || key == "image_pull_secrets") {
				return d.refuse(at(key), "%s %.64q is no name of an object; want a-z 0-9 - . between letters or digits", key, name)
			}
		}
	}
	if k.OwnKernel && k.RuntimeClass == "" {
		return d.refuse(at("own_kernel"), "own_kernel is true without a runtime_class: the nodes' own kernel is nobody's alone; set runtime_class to one of gVisor's, or leave own_kernel out")
	}
	return d.decodePlacement(k, at)
}

// labelForm and objectForm are the names that a namespace and most other objects
// of the cluster may have.
var (
	labelForm  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	objectForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// decodePlacement reads what stands in a pod's spec as it is.
func (d *document) decodePlacement(k *Kubernetes, at func(string) string) error {
	var err error
	if k.NodeSelector, err = d.decodeWords(at("node_selector"), "node_selector"); err != nil {
		return err
	}
	if k.Annotations, err = d.decodeWords(at("annotations"), "annotations"); err != nil {
		return err
	}
	k.Affinity, _ = d.k.Get(at("affinity")).(map[string]any)
	if err := d.checkShape(at("affinity"), "affinity", affinityShape, k.Affinity); err != nil {
		return err
	}
	list, _ := d.k.Get(at("tolerations")).([]any)
	for _, entry := range list {
		t, _ := entry.(map[string]any)
		if fault := tolerationFault(t); fault != "" {
			return d.refuse(at("tolerations"), "tolerations has an entry %s; want { key = \"…\", operator = \"Exists\" or \"Equal\", value = \"…\", effect = \"NoSchedule\" }, as in a pod's spec", fault)
		}
		k.Tolerations = append(k.Tolerations, t)
	}
	return nil
}

// decodeWords reads a table of strings.
func (d *document) decodeWords(path, name string) (map[string]string, error) {
	table, _ := d.k.Get(path).(map[string]any)
	words := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		value, is := table[key].(string)
		if !is {
			return nil, d.refuse(path+sep+key, "%s %.64q is %s, want a string; a name with dots in it has to be quoted", name, key, describe(table[key]))
		}
		words[key] = value
	}
	return words, nil
}

// tolerationFault says what is wrong with an entry of tolerations. The names are
// the cluster's own.
func tolerationFault(t map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		switch name {
		case "key", "operator", "value", "effect":
			if _, is := t[name].(string); !is {
				return fmt.Sprintf("whose %s is %s", name, describe(t[name]))
			}
		case "tolerationSeconds":
			if _, is := t[name].(int64); !is {
				return fmt.Sprintf("whose %s is %s", name, describe(t[name]))
			}
		default:
			return fmt.Sprintf("with %.64q", name)
		}
	}
	operator, _ := t["operator"].(string)
	if !slices.Contains([]string{"", "Exists", "Equal"}, operator) {
		return fmt.Sprintf("whose operator is %.32q", operator)
	}
	effect, _ := t["effect"].(string)
	if !slices.Contains([]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, effect) {
		return fmt.Sprintf("whose effect is %.32q", effect)
	}
	return ""
}
