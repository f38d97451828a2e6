package kubernetes

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// The labels of a run's pod. The first two say what it is, the next three whose
// it is, and are what a sweep goes by; the last is what the network policies
// select on.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	LabelWorker    = "io.batlehub/worker"
	LabelJob       = "io.batlehub/job"
	LabelScanner   = "io.batlehub/scanner"
	LabelNetwork   = "io.batlehub/network"
)

// The values of the labels that are not a run's own.
const (
	// AppName and Component are those of LabelName and LabelComponent.
	AppName   = "batlehub"
	Component = "sandbox"
	// NetworkStorage is LabelNetwork of a run without network, which reaches
	// the storage alone, and NetworkEgress that of a run with one.
	NetworkStorage = "storage"
	NetworkEgress  = "egress"
)

// Selector selects the pods of all runs, whoever made them: a pod without a
// worker's id is no run's.
const Selector = LabelName + "=" + AppName + "," + LabelComponent + "=" + Component + "," + LabelWorker

func labels(l wire.Label, network bool) map[string]string {
	reach := NetworkStorage
	if network {
		reach = NetworkEgress
	}
	return map[string]string{
		LabelName: AppName, LabelComponent: Component,
		LabelWorker: l.Worker, LabelJob: l.Job, LabelScanner: l.Scanner,
		LabelNetwork: reach,
	}
}

// namePrefix begins the name of every pod.
const namePrefix = "batlehub-sbx-"

// suffixLength is how many random characters end a name that was generated, and
// nameLength is how long a pod's may be, for it is a host's name too.
const (
	suffixLength = 5
	nameLength   = 63
)

// generateName is what the name of a run's pod begins with. A label may have
// dots and underscores; between the hyphens of a host's name there are none.
func generateName(scanner string) string {
	safe := strings.NewReplacer(".", "-", "_", "-").Replace(scanner)
	most := nameLength - suffixLength - len(namePrefix) - len("-")
	if len(safe) > most {
		safe = safe[:most]
	}
	return namePrefix + safe + "-"
}

// Owner is the worker's own pod, by its name and uid, for Config.Owner; nil if
// either is not known. The cluster removes what belongs to a pod with it.
func Owner(name, uid string) *metav1.OwnerReference {
	if name == "" || uid == "" {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)}
}
