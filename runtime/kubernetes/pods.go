package kubernetes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// callTime bounds one call to the API server; a watch is bounded by its run.
const (
	callTime    = 10 * time.Second
	silenceTime = 30 * time.Second
	lastLook    = 5 * time.Second
)

// pods are the pods of one namespace, by the five verbs that this runtime uses.
// It stands in for client-go's clientset, which brings every kind of object
// there is into a worker that knows one.
type pods struct {
	client    rest.Interface
	namespace string
	// silence is how long a watch may say nothing before the pod is asked for,
	// and lookTime bounds the last look at a pod whose run is out of time.
	silence, lookTime time.Duration
}

const resourcePods = "pods"

var (
	knownTypes = knownScheme()
	parameters = runtime.NewParameterCodec(knownTypes)
)

func knownScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	if err := corev1.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}

func newPods(c Config) (*pods, error) {
	api := rest.CopyConfig(c.API)
	api.APIPath, api.GroupVersion = "/api", &corev1.SchemeGroupVersion
	api.NegotiatedSerializer = serializer.NewCodecFactory(knownTypes).WithoutConversion()
	api.ContentType, api.AcceptContentTypes = "", ""
	// How much a client may ask for is the server's to say, and it does. The
	// library's own limit is five calls a second.
	api.QPS, api.RateLimiter = -1, nil
	// A timeout of the client's would end every watch; each call has its own.
	api.Timeout = 0
	// Or the server's warnings are printed to stderr.
	api.WarningHandler, api.WarningHandlerWithContext = rest.NoWarnings{}, nil
	if api.UserAgent == "" {
		api.UserAgent = agent
	}
	client, err := rest.RESTClientFor(api)
	if err != nil {
		return nil, err
	}
	return &pods{client: client, namespace: c.Namespace, silence: silenceTime, lookTime: lastLook}, nil
}

// call is a request that is made once. That it is to be made again its caller
// decides, who knows what the time is.
func (p *pods) call(r *rest.Request) *rest.Request {
	return r.Namespace(p.namespace).Resource(resourcePods).MaxRetries(0)
}

func (p *pods) create(ctx context.Context, pod *corev1.Pod, o metav1.CreateOptions) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	made := &corev1.Pod{}
	err := p.call(p.client.Post()).VersionedParams(&o, parameters).Body(pod).Do(ctx).Into(made)
	return made, err
}

func (p *pods) get(ctx context.Context, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	got := &corev1.Pod{}
	err := p.call(p.client.Get()).Name(name).Do(ctx).Into(got)
	if err == nil {
		err = whole(got, name)
	}
	return got, err
}

// whole is an error if an answer is not the pod that was asked for: another
// object than a pod is read as an empty one.
func whole(got *corev1.Pod, name string) error {
	if got.Name == name && got.UID != "" && got.ResourceVersion != "" {
		return nil
	}
	return fmt.Errorf("what answers for the API server has no pod %s in its answer", name)
}

// page is how many pods are listed at a time.
const page = 500

// list calls f for every pod of a selector.
func (p *pods) list(ctx context.Context, selector string, f func(*corev1.Pod)) error {
	o := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		list, err := p.listPage(ctx, o)
		if err != nil {
			return err
		}
		for i := range list.Items {
			f(&list.Items[i])
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return nil
		}
	}
}

func (p *pods) listPage(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	list := &corev1.PodList{}
	err := p.call(p.client.Get()).VersionedParams(&o, parameters).Do(ctx).Into(list)
	return list, err
}

// watch watches one pod.
func (p *pods) watch(ctx context.Context, name string, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch, o.FieldSelector = true, fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return p.client.Get().Namespace(p.namespace).Resource(resourcePods).VersionedParams(&o, parameters).Watch(ctx)
}

// delete asks for a pod's end, with a grace in seconds. Without a uid it is
// whatever pod has that name.
func (p *pods) delete(ctx context.Context, name string, uid types.UID, grace int64, dryRun ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	o := metav1.DeleteOptions{GracePeriodSeconds: &grace, DryRun: dryRun}
	if uid != "" {
		o.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return p.call(p.client.Delete()).Name(name).Body(&o).Do(ctx).Error()
}
