package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// edit changes one place of a document. A place that is not there is a mistake
// of the suite's, as is a change that changes nothing: a mutant like that would
// look like a wall that holds.
type edit struct {
	// At is the place: the keys of objects, and "@key=value" for the element of
	// a list that has that member.
	At []string `json:"at"`
	// Set is its new value; null takes it away. Whoever is set for the first
	// time may be missing before.
	Set any `json:"set"`
	// Append is added to the list that is there, instead.
	Append any `json:"append,omitempty"`
}

var errMissing = errors.New("there is no such place")

// apply returns node with the edit made at a place in it.
func (e edit) apply(node any, at []string) (any, error) {
	if len(at) == 0 {
		return e.change(node)
	}
	switch node := node.(type) {
	case map[string]any:
		return e.inObject(node, at)
	case []any:
		return e.inList(node, at)
	}
	return nil, errMissing
}

func (e edit) inObject(node map[string]any, at []string) (any, error) {
	below, ok := node[at[0]]
	if !ok && len(at) > 1 {
		return nil, errMissing
	}
	changed, err := e.apply(below, at[1:])
	if err != nil {
		return nil, err
	}
	if changed == nil {
		delete(node, at[0])
	} else {
		node[at[0]] = changed
	}
	return node, nil
}

func (e edit) inList(node []any, at []string) (any, error) {
	key, value, ok := strings.Cut(strings.TrimPrefix(at[0], "@"), "=")
	if !ok {
		return nil, fmt.Errorf("%q chooses no element of a list", at[0])
	}
	for i, element := range node {
		if object, ok := element.(map[string]any); !ok || object[key] != value {
			continue
		}
		changed, err := e.apply(element, at[1:])
		if err != nil {
			return nil, err
		}
		if changed == nil {
			return slices.Delete(node, i, i+1), nil
		}
		node[i] = changed
		return node, nil
	}
	return nil, errMissing
}

func (e edit) change(node any) (any, error) {
	if e.Append != nil {
		list, ok := node.([]any)
		if !ok {
			return nil, errors.New("it is no list")
		}
		return append(list, e.Append), nil
	}
	if reflect.DeepEqual(node, e.Set) {
		return nil, errors.New("it is like that already")
	}
	return e.Set, nil
}
