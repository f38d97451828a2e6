package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shape is what a value in the cluster's own words may be: a table of known
// names, or of any with values of one shape, an array of one shape, or a plain
// value. One of its fields is set.
type shape struct {
	// names are those of a table; nil for what is none.
	names map[string]shape
	// values is the shape of what has any name; nil for what has none.
	values *shape
	// each is the shape of an array's elements; nil for what is none.
	each *shape
	// plain says whether a value fits, and want in words what does.
	plain func(any) bool
	want  string
}

func arrayOf(s shape) shape { return shape{each: &s} }

var (
	aString  = shape{plain: is[string], want: "a string"}
	aNumber  = shape{plain: is[int64], want: "a whole number"}
	aWords   = shape{values: &aString}
	someText = arrayOf(aString)
)

// affinityShape is the affinity of a pod's spec, as Kubernetes 1.34 has it.
var affinityShape = func() shape {
	expressions := arrayOf(shape{names: map[string]shape{"key": aString, "operator": aString, "values": someText}})
	nodes := shape{names: map[string]shape{"matchExpressions": expressions, "matchFields": expressions}}
	labels := shape{names: map[string]shape{"matchLabels": aWords, "matchExpressions": expressions}}
	pods := shape{names: map[string]shape{
		"labelSelector": labels, "namespaceSelector": labels, "namespaces": someText, "topologyKey": aString,
		"matchLabelKeys": someText, "mismatchLabelKeys": someText,
	}}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	byPods := shape{names: map[string]shape{
		required:  arrayOf(pods),
		preferred: arrayOf(shape{names: map[string]shape{"weight": aNumber, "podAffinityTerm": pods}}),
	}}
	return shape{names: map[string]shape{
		"nodeAffinity": {names: map[string]shape{
			required:  {names: map[string]shape{"nodeSelectorTerms": arrayOf(nodes)}},
			preferred: arrayOf(shape{names: map[string]shape{"weight": aNumber, "preference": nodes}}),
		}},
		"podAffinity": byPods, "podAntiAffinity": byPods,
	}}
}()

// checkShape refuses a value that is not of that shape, at the line where the
// part that isn't stands. name is what the value is called in messages.
func (d *document) checkShape(path, name string, s shape, value any) error {
	switch {
	case s.names != nil, s.values != nil:
		table, is := value.(map[string]any)
		if !is {
			return d.refuse(d.around(path), "%s is %s, want a table as in a pod's spec", name, describe(value))
		}
		return d.checkNames(path, name, s, table)
	case s.each != nil:
		return d.checkElements(path, name, *s.each, value)
	case !s.plain(value):
		return d.refuse(d.around(path), "%s is %s, want %s", name, describe(value), s.want)
	}
	return nil
}

func (d *document) checkNames(path, name string, s shape, table map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		inner, known := s.names[key]
		if s.values != nil {
			inner, known = *s.values, true
		}
		if !known {
			names := slices.Sorted(maps.Keys(s.names))
			return d.refuse(d.around(path+sep+key), "%s has %.64q; one of %s, each as in a pod's spec", name, key, strings.Join(names, ", "))
		}
		if err := d.checkShape(path+sep+key, name+"."+key, inner, table[key]); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) checkElements(path, name string, each shape, value any) error {
	list, is := elements(value)
	if !is {
		return d.refuse(d.around(path), "%s is %s, want an array as in a pod's spec", name, describe(value))
	}
	for i, element := range list {
		if err := d.checkShape(elementPath(path, i), fmt.Sprintf("%s[%d]", name, i), each, element); err != nil {
			return err
		}
	}
	return nil
}

// around is path, or the nearest one around it whose line is known: that of
// what stands in an array is the array's.
func (d *document) around(path string) string {
	for !d.set(path) {
		i := strings.LastIndex(path, sep)
		if i < 0 {
			return path
		}
		path = path[:i]
	}
	return path
}

// elements are those of an array, which an array of tables is as well.
func elements(value any) ([]any, bool) {
	switch list := value.(type) {
	case []any:
		return list, true
	case []map[string]any:
		var all []any
		for _, table := range list {
			all = append(all, table)
		}
		return all, true
	}
	return nil, false
}

func is[T any](value any) bool {
	_, fits := value.(T)
	return fits
}
