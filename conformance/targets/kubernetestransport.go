package targets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// agedAnnotation says when a pod of the suite's was made, whatever the API
// server says: nobody can make a pod that is an hour old.
const agedAnnotation = "sandbox-conformance/created"

// wrap puts the suite between a runtime and its API server.
func (p podBreakage) wrap(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return between{next, p} })
}

// between changes what goes to the API server where something is to be broken,
// and what comes from it where a pod is to be older than it is.
type between struct {
	next   http.RoundTripper
	broken podBreakage
}

// RoundTrip implements http.RoundTripper.
func (b between) RoundTrip(r *http.Request) (*http.Response, error) {
	pods := strings.HasSuffix(r.URL.Path, "/pods")
	switch {
	case r.Method == http.MethodPost && pods && b.broken.edit != nil:
		return b.edited(r)
	case r.Method == http.MethodDelete && b.broken.keep:
		return b.kept(r)
	case r.Method == http.MethodGet && pods && r.URL.Query().Get("watch") == "":
		return b.aged(r)
	}
	return b.next.RoundTrip(r)
}

// kept answers well to the deletion of a pod that is not over, and does nothing.
func (b between) kept(r *http.Request) (*http.Response, error) {
	get := r.Clone(r.Context())
	get.Method, get.Body, get.ContentLength = http.MethodGet, nil, 0
	response, err := b.next.RoundTrip(get)
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if err := readJSON(response.Body, &pod); err != nil {
		return nil, fmt.Errorf("reading a pod that is to be deleted: %w", err)
	}
	if pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning {
		return answer(r, http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess})
	}
	return b.next.RoundTrip(r)
}

func (b between) edited(r *http.Request) (*http.Response, error) {
	var pod corev1.Pod
	if err := readJSON(r.Body, &pod); err != nil {
		return nil, fmt.Errorf("reading a pod on its way to the API server: %w", err)
	}
	b.broken.edit(&pod)
	body, err := json.Marshal(&pod)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength, r.GetBody = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return b.next.RoundTrip(r)
}

// aged has pods that say so be as old as they say.
func (b between) aged(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	var list corev1.PodList
	if err := readJSON(response.Body, &list); err != nil {
		return nil, fmt.Errorf("reading a list of pods on its way from the API server: %w", err)
	}
	for i := range list.Items {
		if made, err := time.Parse(time.RFC3339, list.Items[i].Annotations[agedAnnotation]); err == nil {
			list.Items[i].CreationTimestamp = metav1.NewTime(made)
		}
	}
	return answer(r, http.StatusOK, &list)
}

func readJSON(r io.ReadCloser, v any) error {
	defer func() { _ = r.Close() }()
	return json.NewDecoder(r).Decode(v)
}

// answer is an answer of the API server's.
func answer(r *http.Request, status int, v any) (*http.Response, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}, nil
}
