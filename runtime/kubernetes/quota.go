package kubernetes

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// overQuota is one resource of which a ResourceQuota does not let a pod have
// what it asks for.
type overQuota struct {
	quota, what              string
	requested, used, limited resource.Quantity
}

// parseQuota reads what the quota's admission plugin says of a pod that is too
// much. It says which resources those are in one line:
//
//	exceeded quota: NAME, requested: limits.memory=2Gi, used: limits.memory=0, limited: limits.memory=1920Mi
//
// Of anything else there is none.
func parseQuota(message string) []overQuota {
	_, said, found := strings.Cut(message, "exceeded quota: ")
	if !found {
		return nil
	}
	name, said, _ := strings.Cut(said, ", requested: ")
	asked, said, _ := strings.Cut(said, ", used: ")
	used, limited, found := strings.Cut(said, ", limited: ")
	if !found {
		return nil
	}
	requested, inUse, limits := amounts(asked), amounts(used), amounts(limited)
	var over []overQuota
	for what, n := range requested {
		if limit, has := limits[what]; has {
			over = append(over, overQuota{name, what, n, inUse[what], limit})
		}
	}
	slices.SortFunc(over, func(a, b overQuota) int { return strings.Compare(a.what, b.what) })
	return over
}

// amounts reads "limits.cpu=1,limits.memory=2Gi". What is no such amount is
// left out.
func amounts(list string) map[string]resource.Quantity {
	read := map[string]resource.Quantity{}
	for entry := range strings.SplitSeq(list, ",") {
		name, amount, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if n, err := resource.ParseQuantity(amount); err == nil {
			read[name] = n
		}
	}
	return read
}

// never says that the quota could not hold such a pod if it held nothing else.
func (o overQuota) never() bool { return o.requested.Cmp(o.limited) > 0 }

// least is what the quota has to allow for the pod to be made now.
func (o overQuota) least() *resource.Quantity {
	sum := o.requested.DeepCopy()
	if !o.never() {
		sum.Add(o.used)
	}
	return &sum
}

// String says how much there is and how much is asked for.
func (o overQuota) String() string {
	if o.never() {
		return fmt.Sprintf("its %s is %s, and the pod needs %s", o.what, &o.limited, &o.requested)
	}
	return fmt.Sprintf("of its %s %s are %s used, and the pod needs %s", o.what, &o.limited, &o.used, &o.requested)
}

// exceeded completes e for a pod that is too much for a quota. A quota that could
// not hold it if it held nothing else is the configuration's fault, and another's
// may be over in a minute.
func exceeded(e *sandbox.Error, over []overQuota) {
	never := slices.DeleteFunc(slices.Clone(over), func(o overQuota) bool { return !o.never() })
	if len(never) > 0 {
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
		e.Detail = fmt.Sprintf("the ResourceQuota %s can never hold one such pod: %s", never[0].quota, listed(never))
		e.Hint = fixOf(never)
		return
	}
	e.Kind, e.Code = sandbox.Crashed, sandbox.CodeHostRefused
	e.Detail = fmt.Sprintf("the ResourceQuota %s is used up now: %s", over[0].quota, listed(over))
	e.Hint = "try again when runs have ended, run less at a time, or " + fixOf(over)
}

func listed(over []overQuota) string {
	var said []string
	for _, o := range over {
		said = append(said, o.String())
	}
	return strings.Join(said, "; ")
}

// fixOf is what to do about a quota's resources, which all want more.
func fixOf(over []overQuota) string {
	var raised []string
	memory := ""
	for _, o := range over {
		raised = append(raised, fmt.Sprintf("%s to %s or more", o.what, o.least()))
		if strings.HasSuffix(o.what, "memory") {
			memory = ", or lower memory_limit_mb"
		}
	}
	return fmt.Sprintf("raise in the ResourceQuota %s %s%s", over[0].quota, strings.Join(raised, " and "), memory)
}
