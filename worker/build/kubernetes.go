//go:build !nokubernetes

package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/doctor"
)

// PodNameVariable and PodUIDVariable name the pod that this worker runs in, where
// it runs in one: the runs' pods then belong to it, and go with it.
const (
	PodNameVariable = "BATLEHUB_POD_NAME"
	PodUIDVariable  = "BATLEHUB_POD_UID"
)

// podImages are the names that images of pods have.
var podImages = imageNames{kubernetes.ParseImage, kubernetes.ImageForms}

func (o Options) kubernetes() (Built, error) {
	made, err := o.cluster()
	if err != nil {
		return Built{}, err
	}
	if made.Hop, err = o.hop(kubernetes.Name); err != nil {
		return Built{}, err
	}
	r, err := kubernetes.New(made)
	if err != nil {
		return Built{}, errors.Join(err, made.Hop.Close())
	}
	c := o.Sandbox.Kubernetes
	where := []string{"namespace " + made.Namespace}
	if c.RuntimeClass != "" {
		where = append(where, "runtime class "+c.RuntimeClass)
	}
	where = append(where, fmt.Sprintf("bundles on s3://%s/%s", o.Bundles.Bucket, o.Sandbox.BundlePrefix))
	return Built{
		Runtime: withHop{r, made.Hop}, Work: "/work",
		Images:    &Images{Configured: c.Image, Worker: o.WorkerImage, Runtime: kubernetes.Name},
		placement: func([]string) string { return strings.Join(where, ", ") },
	}, nil
}

// cluster is what the runtime is made from, but for the bundles.
func (o Options) cluster() (kubernetes.Config, error) {
	c := o.Sandbox.Kubernetes
	api, own, err := kubernetes.Connect(c.Kubeconfig)
	if err != nil {
		return kubernetes.Config{}, &config.Error{Message: fmt.Sprintf(
			"there is no cluster: %v; run the worker in a pod with its service account's token, or set [worker.sandbox.kubernetes] kubeconfig", err)}
	}
	made := kubernetes.Config{
		API: api, Namespace: c.Namespace, ServiceAccount: c.ServiceAccount, Image: c.Image, RuntimeClass: c.RuntimeClass,
		OwnKernel: c.OwnKernel, NodeSelector: c.NodeSelector, PriorityClass: c.PriorityClass, ImagePullSecrets: c.ImagePullSecrets,
		Annotations: c.Annotations, Canaries: o.Canaries, Worker: o.Worker,
	}
	if made.Namespace == "" {
		made.Namespace = own
	}
	if err := likewise(c.Tolerations, &made.Tolerations); err != nil {
		return made, &config.Error{Message: fmt.Sprintf("[worker.sandbox.kubernetes] tolerations: %v", err)}
	}
	if len(c.Affinity) > 0 {
		if err := likewise(c.Affinity, &made.Affinity); err != nil {
			return made, &config.Error{Message: fmt.Sprintf("[worker.sandbox.kubernetes] affinity: %v", err)}
		}
	}
	if c.Kubeconfig == "" && made.Namespace == own && o.Getenv != nil {
		made.Owner = kubernetes.Owner(o.Getenv(PodNameVariable), o.Getenv(PodUIDVariable))
	}
	return made, nil
}

// likewise reads what the configuration says in the cluster's own words, and
// refuses a word that the cluster does not know.
func likewise(from, to any) error {
	b, err := json.Marshal(from)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// clusterHost is what a doctor has to know about runtime kubernetes. Only the
// configured runtime's cluster is asked.
func clusterHost(o Options) doctor.Cluster {
	return doctor.Cluster{
		Pinned: kubernetes.ParseImage,
		Examine: func(ctx context.Context) []doctor.Check {
			c, err := o.cluster()
			if err != nil {
				return []doctor.Check{{Name: "API server", Outcome: doctor.Fail, Detail: err.Error()}}
			}
			var checks []doctor.Check
			for _, a := range kubernetes.Examine(ctx, c, o.Runs...) {
				checks = append(checks, checkOf(a.Name, a.Detail, a.Fault))
			}
			return checks
		},
	}
}
