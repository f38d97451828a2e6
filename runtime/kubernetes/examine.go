package kubernetes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Aspect is one thing that a cluster has, or lacks, for this runtime.
type Aspect struct {
	// Name is what was looked at.
	Name string
	// Detail is what there is, in words.
	Detail string
	// Fault is why no run would be started, nil if this does not stand in its
	// way.
	Fault *sandbox.Error
}

// Examine looks at what every run needs of the cluster, and changes nothing.
// It uses the rights of a run and no other: each verb is tried on a pod that
// there is not, and a pod is made that the server checks in every way and does
// not keep. c needs no Hop. Whether walls stand is left to the probe.
//
// runs are the runs that pods are to be made for, as far as they are known
// without an input; without any it is one run with the defaults.
func Examine(ctx context.Context, c Config, runs ...sandbox.RunSpec) []Aspect {
	c = c.withDefaults()
	p, err := newPods(c)
	if err == nil {
		err = c.checkNames()
	}
	if err != nil {
		return []Aspect{{Name: "API server", Fault: &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Err: err}}}
	}
	server := p.examineServer(ctx, c)
	if server.Fault != nil && server.Fault.Code == sandbox.CodeNoEngine {
		return []Aspect{server}
	}
	return []Aspect{server, p.examineRights(ctx), p.examinePods(ctx, c, runs)}
}

// examineServer asks for one page of one pod.
func (p *pods) examineServer(ctx context.Context, c Config) Aspect {
	a := Aspect{Name: "API server", Detail: fmt.Sprintf("%s answers for namespace %s", c.API.Host, c.Namespace)}
	if _, err := p.listPage(ctx, metav1.ListOptions{LabelSelector: Selector, Limit: 1}); err != nil && !apierrors.IsForbidden(err) {
		a.Fault = apiFault("asking "+c.API.Host, err)
	}
	return a
}

// examineRights tries every verb of a run but create, see examinePod.
func (p *pods) examineRights(ctx context.Context) Aspect {
	a := Aspect{Name: "rights", Detail: "this worker may get, list, watch and delete pods of namespace " + p.namespace}
	nobody := namePrefix + "nobody-" + rand.String(suffixLength)
	for _, try := range []struct {
		verb string
		do   func() error
	}{
		{"list", func() error {
			_, err := p.listPage(ctx, metav1.ListOptions{LabelSelector: Selector, Limit: 1})
			return err
		}},
		{"get", func() error { _, err := p.get(ctx, nobody); return err }},
		{"watch", func() error { return p.tryWatch(ctx, nobody) }},
		{"delete", func() error { return p.delete(ctx, nobody, "", graceRunning, metav1.DryRunAll) }},
	} {
		if err := try.do(); err != nil && !apierrors.IsNotFound(err) {
			a.Fault = apiFault("trying to "+try.verb+" pods", err)
			return a
		}
	}
	return a
}

func (p *pods) tryWatch(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	w, err := p.watch(ctx, name, metav1.ListOptions{TimeoutSeconds: new(int64(1))})
	if err == nil {
		w.Stop()
	}
	return err
}
