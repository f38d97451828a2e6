package chart_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
)

func peers(peers ...networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer { return peers }

func block(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
}

func podsIn(namespace, label, value string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{label: value}},
	}
}

func ports(port int32, protocols ...corev1.Protocol) []networkingv1.NetworkPolicyPort {
	var all []networkingv1.NetworkPolicyPort
	for _, p := range protocols {
		number := intstr.FromInt32(port)
		all = append(all, networkingv1.NetworkPolicyPort{Protocol: &p, Port: &number})
	}
	return all
}

// A run without network reaches its storage and the resolver and nothing else, and
// nobody reaches it; a run with one what is allowed besides.
func TestARunReachesItsStorageTheResolverAndWhatIsAllowed(t *testing.T) {
	type rules = []networkingv1.NetworkPolicyEgressRule
	dns := networkingv1.NetworkPolicyEgressRule{To: peers(podsIn("kube-system", "k8s-app", "kube-dns")), Ports: ports(53, corev1.ProtocolUDP, corev1.ProtocolTCP)}
	unbound := networkingv1.NetworkPolicyEgressRule{To: peers(podsIn("dns", "app", "unbound"), block("169.254.20.10/32")), Ports: dns.Ports}
	minio := networkingv1.NetworkPolicyEgressRule{To: peers(block("192.0.2.10/32")), Ports: ports(9000, corev1.ProtocolTCP)}
	inside := rules{
		{To: peers(podsIn("storage", "app", "minio")), Ports: minio.Ports},
		{To: peers(block("2001:db8::10/128")), Ports: ports(443, corev1.ProtocolTCP)},
	}
	outside := rules{
		{To: peers(block("0.0.0.0/0", "10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")), Ports: ports(443, corev1.ProtocolTCP)},
		{To: peers(podsIn("trivy", "app", "trivy-server")), Ports: ports(4954, corev1.ProtocolTCP)},
	}
	for name, want := range map[string]map[string]rules{
		"kubernetes": {kubernetes.NetworkStorage: {minio, dns}, kubernetes.NetworkEgress: {minio, dns}},
		"kubernetes-full": {
			kubernetes.NetworkStorage: append(inside[:2:2], unbound),
			kubernetes.NetworkEgress:  append(append(inside[:2:2], unbound), outside...),
		},
	} {
		all := documents(t, render(t, name))
		for network, egress := range want {
			p := object[networkingv1.NetworkPolicy](t, all, "NetworkPolicy/batlehub-sandbox-"+network)
			spec := networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{kubernetes.LabelNetwork: network}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
				Egress:      egress,
			}
			if got, want := text(t, p.Spec), text(t, spec); got != want {
				t.Errorf("%s: the policy of %s is\n%s\nwant\n%s", name, network, got, want)
			}
		}
	}
}

// What neither policy selects reaches nothing: any pod where the namespace is the
// sandboxes' own, whatever the worker says that the pod is; beside the worker what
// is labelled a sandbox, and not the worker.
func TestEveryOtherPodOfTheSandboxesReachesNothing(t *testing.T) {
	for name, selector := range map[string]metav1.LabelSelector{
		"kubernetes":      {MatchLabels: map[string]string{kubernetes.LabelName: kubernetes.AppName, kubernetes.LabelComponent: kubernetes.Component}},
		"kubernetes-full": {},
	} {
		got := object[networkingv1.NetworkPolicy](t, documents(t, render(t, name)), "NetworkPolicy/batlehub-sandbox-deny").Spec
		want := networkingv1.NetworkPolicySpec{
			PodSelector: selector,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		}
		if text(t, got) != text(t, want) {
			t.Errorf("%s: the policy is\n%s\nwant\n%s", name, text(t, got), text(t, want))
		}
	}
	// Names among the destinations don't make it another plugin's.
	if documents(t, render(t, "kubernetes-fqdn"))["NetworkPolicy/batlehub-sandbox-deny"] == nil {
		t.Error("with Cilium's policies there is none")
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ciliumPolicy is what the chart uses of Cilium's kind, whose own package is a
// whole network plugin.
type ciliumPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		EndpointSelector metav1.LabelSelector `json:"endpointSelector"`
		Ingress          []struct{}           `json:"ingress"`
		Egress           []ciliumRule         `json:"egress"`
	} `json:"spec"`
}

type ciliumRule struct {
	ToFQDNs     []ciliumName           `json:"toFQDNs,omitempty"`
	ToCIDR      []string               `json:"toCIDR,omitempty"`
	ToCIDRSet   []networkingv1.IPBlock `json:"toCIDRSet,omitempty"`
	ToEndpoints []metav1.LabelSelector `json:"toEndpoints,omitempty"`
	ToPorts     []ciliumPorts          `json:"toPorts,omitempty"`
}

type ciliumName struct {
	MatchName    string `json:"matchName,omitempty"`
	MatchPattern string `json:"matchPattern,omitempty"`
}

type ciliumPorts struct {
	Ports []ciliumPort `json:"ports"`
	Rules *ciliumDNS   `json:"rules,omitempty"`
}

type ciliumPort struct {
	Port     string `json:"port"`
	Protocol string `json:"protocol"`
}

type ciliumDNS struct {
	DNS []ciliumName `json:"dns"`
}

// A storage that has a name alone is a rule of Cilium's, which has to see what the
// resolver says about that name.
func TestAStorageWithANameIsARuleOfCiliums(t *testing.T) {
	tcp := func(port string) []ciliumPorts { return []ciliumPorts{{Ports: []ciliumPort{{port, "TCP"}}}} }
	endpoints := func(namespace, label, value string) []metav1.LabelSelector {
		return []metav1.LabelSelector{{MatchLabels: map[string]string{"k8s:io.kubernetes.pod.namespace": namespace, label: value}}}
	}
	seen := []ciliumPorts{{Ports: []ciliumPort{{"53", "ANY"}}, Rules: &ciliumDNS{DNS: []ciliumName{{MatchPattern: "*"}}}}}
	storage := []ciliumRule{
		{ToFQDNs: []ciliumName{{MatchPattern: "*.s3.eu-west-1.example.com"}}, ToPorts: tcp("443")},
		{ToEndpoints: endpoints("storage", "app", "minio"), ToPorts: tcp("9000")},
	}
	allowed := []ciliumRule{
		{ToFQDNs: []ciliumName{{MatchName: "registry.example.com"}}, ToPorts: tcp("443")},
		{ToCIDRSet: []networkingv1.IPBlock{{CIDR: "198.51.100.0/24", Except: []string{"198.51.100.128/25"}}}},
	}
	dns := []ciliumRule{{ToEndpoints: endpoints("kube-system", "k8s-app", "kube-dns"), ToPorts: seen}, {ToCIDR: []string{"169.254.20.10/32"}, ToPorts: seen}}
	all := documents(t, render(t, "kubernetes-fqdn"))
	for network, want := range map[string][]ciliumRule{
		kubernetes.NetworkStorage: append(storage[:2:2], dns...),
		kubernetes.NetworkEgress:  append(append(storage[:2:2], dns...), allowed...),
	} {
		p := object[ciliumPolicy](t, all, "CiliumNetworkPolicy/batlehub-sandbox-"+network)
		if p.APIVersion != "cilium.io/v2" || text(t, p.Spec.EndpointSelector) != `{"matchLabels":{"io.batlehub/network":"`+network+`"}}` {
			t.Errorf("%s selects %+v", p.APIVersion, p.Spec.EndpointSelector)
		}
		if got, want := text(t, p.Spec.Egress), text(t, want); got != want {
			t.Errorf("the policy of %s is\n%s\nwant\n%s", network, got, want)
		}
		// One rule that matches nobody: without any rule everybody gets in.
		if len(p.Spec.Ingress) != 1 {
			t.Errorf("%s has %d rules of ingress", network, len(p.Spec.Ingress))
		}
	}
	// A name among what is allowed besides is no reason to write the other so.
	mixed := documents(t, render(t, "kubernetes", "worker: {sandbox: {kubernetes: {egressAllow: [{fqdn: registry.example.com}]}}}"))
	for _, key := range []string{"NetworkPolicy/batlehub-sandbox-storage", "CiliumNetworkPolicy/batlehub-sandbox-egress"} {
		if mixed[key] == nil {
			t.Errorf("there is no %s", key)
		}
	}
}
