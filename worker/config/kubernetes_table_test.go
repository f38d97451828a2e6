package config

import "testing"

const podTable = "[worker.sandbox.kubernetes]\n"

// podTableRefusals are the rules of the kubernetes runtime's table, which hold
// whatever runtime is chosen, in builds without this one as well.
var podTableRefusals = []refusal{
	{"a namespace's name", podTable + "namespace = \"Sand_box\"", `:2: namespace "Sand_box" is no namespace's name; want 1 to 63 of a-z 0-9 - between letters or digits`},
	{"no service account", podTable + "service_account = \"\"", `:2: worker.sandbox.kubernetes.service_account is empty; leave the key out for the default`},
	{"a service account's name", podTable + "service_account = \"a b\"", `:2: service_account "a b" is no name of an object; want a-z 0-9 - . between letters or digits`},
	{"a runtime class's name", podTable + "runtime_class = \"gVisor\"", `:2: runtime_class "gVisor" is no name of an object; want a-z 0-9 - . between letters or digits`},
	{"a pull secret without a name", podTable + "image_pull_secrets = [\"a\", \"\"]", `:2: image_pull_secrets "" is no name of an object; want a-z 0-9 - . between letters or digits`},
	{"a kernel of its own without a class", podTable + "own_kernel = true", `:2: own_kernel is true without a runtime_class: the nodes' own kernel is nobody's alone; set runtime_class to one of gVisor's, or leave own_kernel out`},
	{"a selector whose name is not quoted", podTable + "node_selector = { kubernetes.io/arch = \"amd64\" }", `:2: not valid TOML: expected '=' after key`},
	{"a selector that is no string", podTable + "node_selector = { gpu = true }", `:2: node_selector "gpu" is true, want a string; a name with dots in it has to be quoted`},
	{"a selector with dots", podTable + "node_selector = { topology.zone = \"a\" }", `:2: node_selector "topology" is a table, want a string; a name with dots in it has to be quoted`},
	{"an annotation that is no string", podTable + "annotations = { a = 1 }", `:2: annotations "a" is the number 1, want a string; a name with dots in it has to be quoted`},
	{"a toleration in the wrong words", podTable + "tolerations = [{ toleration_seconds = 1 }]", `:2: tolerations has an entry with "toleration_seconds"; want { key = "…", operator = "Exists" or "Equal", value = "…", effect = "NoSchedule" }, as in a pod's spec`},
	{"a toleration of an unknown operator", podTable + "tolerations = [{ key = \"a\", operator = \"In\" }]", `:2: tolerations has an entry whose operator is "In"; want { key = "…", operator = "Exists" or "Equal", value = "…", effect = "NoSchedule" }, as in a pod's spec`},
	{"a toleration of an unknown effect", podTable + "tolerations = [{ effect = \"noSchedule\" }]", `:2: tolerations has an entry whose effect is "noSchedule"; want { key = "…", operator = "Exists" or "Equal", value = "…", effect = "NoSchedule" }, as in a pod's spec`},
	{"a toleration's time", podTable + "tolerations = [{ tolerationSeconds = \"1\" }]", `:2: tolerations has an entry whose tolerationSeconds is the string "1"; want { key = "…", operator = "Exists" or "Equal", value = "…", effect = "NoSchedule" }, as in a pod's spec`},
	{"an affinity in the wrong words", podTable + "affinity = { node_affinity = {} }", `:2: affinity has "node_affinity"; one of nodeAffinity, podAffinity, podAntiAffinity, each as in a pod's spec`},
	{"an affinity of a node in the wrong words", podTable + "affinity = { nodeAffinity = { foo = 1 } }", `:2: affinity.nodeAffinity has "foo"; one of preferredDuringSchedulingIgnoredDuringExecution, requiredDuringSchedulingIgnoredDuringExecution, each as in a pod's spec`},
	{"an affinity that is no table", podTable + "affinity = { nodeAffinity = 1 }", `:2: affinity.nodeAffinity is the number 1, want a table as in a pod's spec`},
	{"an affinity of pods that is no array", podTable + "[worker.sandbox.kubernetes.affinity.podAffinity]\nrequiredDuringSchedulingIgnoredDuringExecution = {}", `:3: affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution is a table, want an array as in a pod's spec`},
	{"a slip deep in an affinity", podTable + "[[worker.sandbox.kubernetes.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms]]\nmatchExpressions = [{ key = \"a\", op = \"In\" }]", `:3: affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0] has "op"; one of key, operator, values, each as in a pod's spec`},
	{"a weight that is no number", podTable + "[[worker.sandbox.kubernetes.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution]]\nweight = \"1\"", `:3: affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight is the string "1", want a whole number`},
	{"labels that are no strings", podTable + "affinity = { podAffinity = { requiredDuringSchedulingIgnoredDuringExecution = [{ topologyKey = \"a\", labelSelector = { matchLabels = { a = 1 } } }] } }", `:2: affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels.a is the number 1, want a string`},
	{"an orphan's age of nothing", podTable + "orphan_after_secs = 0", `:2: worker.sandbox.kubernetes.orphan_after_secs is 0, want 1 to 2592000`},
	{"a key with a slip", podTable + "runtimeclass = \"x\"", `:2: unknown key "runtimeclass" in [worker.sandbox.kubernetes]; did you mean "runtime_class"?`},
}

func TestEachRuleOfTheKubernetesTableIsOneLine(t *testing.T) {
	checkRefusals(t, podTableRefusals)
}
