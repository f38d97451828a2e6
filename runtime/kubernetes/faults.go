package kubernetes

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// docs is where an operator reads on.
const docs = "see docs/operations/scan-worker.md#runtimes"

const (
	noAgent  = "the image needs the agent at /usr/local/bin/" + agent + ", executable, as the images of this release have it"
	noRights = "give the worker's service account create, get, list, watch and delete on pods of the namespace, as the chart does"
	// byAdmission is for the rules that a namespace can have and nobody here knows.
	byAdmission = "that is an admission rule of the namespace or of the cluster (a LimitRange, a policy, a webhook), and no right of the worker's: " +
		"ask whoever set it to let the sandboxes' pods pass, or change what [worker.sandbox] asks for"
	silent = "look whether the API server answers this worker; the run can be repeated then"
)

// refusal is what an API server says and what it means.
type refusal struct {
	// words are what has to be there of what it said, all of them.
	words []string
	kind  sandbox.Kind
	code  sandbox.Code
	hint  string
}

// refusals are looked through in order for what is forbidden. They are the
// words of the admission plugins of Kubernetes 1.34.
var refusals = []refusal{
	{[]string{"exceeded quota"}, sandbox.Crashed, sandbox.CodeHostRefused, "the namespace's ResourceQuota is used up: raise it, or run less at a time"},
	{[]string{"failed quota"}, sandbox.Refused, sandbox.CodeConfig, "the namespace's ResourceQuota counts something that these pods don't set; count requests and limits of memory and CPU alone"},
	{[]string{"violates PodSecurity"}, sandbox.Refused, sandbox.CodeHostRefused, "the namespace enforces more than Pod Security's restricted level, or [worker.sandbox.kubernetes] asks for more than it allows"},
	{[]string{"RuntimeClass", "not found"}, sandbox.Refused, sandbox.CodeConfig, "set [worker.sandbox.kubernetes] runtime_class to a RuntimeClass that this cluster has"},
	{[]string{"serviceaccount", "not found"}, sandbox.Refused, sandbox.CodeConfig, "make the service account that [worker.sandbox.kubernetes] service_account names, without a role, as the chart does"},
	{[]string{"no PriorityClass"}, sandbox.Refused, sandbox.CodeConfig, "set [worker.sandbox.kubernetes] priority_class to a PriorityClass that this cluster has"},
	{[]string{"is being terminated"}, sandbox.Crashed, sandbox.CodeHostRefused, "the namespace is being deleted"},
	{[]string{"maximum memory usage per"}, sandbox.Refused, sandbox.CodeConfig, "the namespace's LimitRange allows less memory than memory_limit_mb"},
	{[]string{"maximum cpu usage per"}, sandbox.Refused, sandbox.CodeConfig, "the namespace's LimitRange allows less than one CPU"},
	{[]string{"minimum memory usage per"}, sandbox.Refused, sandbox.CodeConfig, "the namespace's LimitRange asks for more memory than memory_limit_mb"},
	{[]string{"minimum cpu usage per"}, sandbox.Refused, sandbox.CodeConfig, "the namespace's LimitRange asks for more CPU than a sandbox requests, a quarter of one"},
	{[]string{"cpu max limit to request ratio per"}, sandbox.Refused, sandbox.CodeConfig, "the namespace's LimitRange has to allow a sandbox one CPU with a quarter requested, a ratio of 4"},
}

// lacking is how an API server says that a right is missing.
var lacking = regexp.MustCompile(`cannot ([a-z]+) resource`)

// apiFault is what an API server's answer, or its silence, means to a run.
func apiFault(doing string, err error) *sandbox.Error {
	e := &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeHostRefused, Detail: doing, Err: err}
	switch {
	case unread(err):
		e.Code, e.Hint = sandbox.CodeNoEngine, silent
	case apierrors.IsForbidden(err):
		forbidden(e, err.Error())
	case deniedByRule(err):
		e.Kind, e.Hint = sandbox.Refused, byAdmission
	case apierrors.IsUnauthorized(err):
		e.Hint = "the API server does not take this worker's credentials: look at its service account and its token"
	case apierrors.IsNotFound(err):
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
		e.Hint = "make the namespace that [worker.sandbox.kubernetes] namespace names"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
		e.Hint = "look at what [worker.sandbox.kubernetes] puts into every pod"
	case transient(err):
		e.Code, e.Hint = sandbox.CodeNoEngine, silent
	}
	return e
}

// forbidden is what an API server does not allow: a right is missing, or an
// admission rule is against it.
func forbidden(e *sandbox.Error, said string) {
	e.Kind, e.Hint = sandbox.Refused, byAdmission
	if verb := lacking.FindStringSubmatch(said); verb != nil {
		e.Hint = fmt.Sprintf("it may not %s pods: %s", verb[1], noRights)
		return
	}
	if over := parseQuota(said); len(over) > 0 {
		exceeded(e, over)
		return
	}
	for _, known := range refusals {
		if containsAll(said, known.words) {
			e.Kind, e.Code, e.Hint = known.kind, known.code, known.hint
			return
		}
	}
}

// deniedByRule says whether a policy or a webhook refused a pod, which can give
// any status to that.
func deniedByRule(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (strings.Contains(err.Error(), " denied the request") || strings.Contains(err.Error(), " denied request"))
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// notAgent is what to do about a container that could not execute the agent, by
// what the container runtime says; empty for any other trouble.
func notAgent(message string) string {
	switch {
	case strings.Contains(message, "exec format error"):
		return "the image is of another architecture than the node: build it for that, or set [worker.sandbox.kubernetes] node_selector"
	case !strings.Contains(message, agent):
		return ""
	}
	for _, words := range []string{"not found", "no such file", "permission denied"} {
		if strings.Contains(message, words) {
			return noAgent
		}
	}
	return ""
}

// redact takes a run's URLs out of what a cluster says: they are secrets while
// they live.
func redact(e *sandbox.Error, u urls) *sandbox.Error {
	if e == nil {
		return nil
	}
	clean := strings.NewReplacer(u.in, "<presigned URL>", u.out, "<presigned URL>")
	e.Detail = clean.Replace(e.Detail)
	if e.Err != nil && clean.Replace(e.Err.Error()) != e.Err.Error() {
		e.Err = fmt.Errorf("%s", clean.Replace(e.Err.Error()))
	}
	return e
}
