package kubernetes

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
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

// String says how the two stand to each other.
func (o overQuota) String() string {
	if o.never() {
		return fmt.Sprintf("the ResourceQuota %s can never hold one such pod: its %s is %s, and the pod needs %s", o.quota, o.what, &o.limited, &o.requested)
	}
	return fmt.Sprintf("the ResourceQuota %s is used up now: of its %s %s are %s used, and the pod needs %s", o.quota, o.what, &o.limited, &o.used, &o.requested)
}

// fixOf is what to do about a quota's resources, which all want more.
func fixOf(over []overQuota) string {
	var names []string
	memory := ""
	for _, o := range over {
		names = append(names, o.what)
		if strings.HasSuffix(o.what, "memory") {
			memory = ", or lower memory_limit_mb"
		}
	}
	return fmt.Sprintf("raise %s of the ResourceQuota %s%s", strings.Join(names, " and "), over[0].quota, memory)
}
