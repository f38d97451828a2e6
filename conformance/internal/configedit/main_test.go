package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

const document = `{"root":{"path":"/r","readonly":true},"mounts":[{"destination":"/proc"},{"destination":"/work","options":["nosuid"]}],"n":9007199254740993}`

func changed(t *testing.T, edits ...edit) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	err := config{Edits: edits}.change(file)
	b, _ := os.ReadFile(file)
	return string(b), err
}

func TestAPlaceIsSetRemovedAndAddedTo(t *testing.T) {
	got, err := changed(t,
		edit{At: []string{"root", "readonly"}, Set: false},
		edit{At: []string{"mounts", "@destination=/proc"}},
		edit{At: []string{"mounts", "@destination=/work", "options"}, Set: []any{"rw"}},
		edit{At: []string{"mounts"}, Append: map[string]any{"destination": "/new"}},
	)
	want := `{"root":{"path":"/r","readonly":false},"mounts":[{"destination":"/work","options":["rw"]},{"destination":"/new"}],"n":9007199254740993}`
	var a, b any
	if err != nil || json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestAChangeThatChangesNothingIsAMistake(t *testing.T) {
	for name, e := range map[string]edit{
		"equal":      {At: []string{"root", "readonly"}, Set: true},
		"gone":       {At: []string{"process"}},
		"no parent":  {At: []string{"linux", "seccomp"}},
		"no element": {At: []string{"mounts", "@destination=/sys"}},
		"no list":    {At: []string{"root"}, Append: 1},
		"no choice":  {At: []string{"mounts", "0"}, Set: 1},
		"no object":  {At: []string{"n", "x"}, Set: 1},
	} {
		if got, err := changed(t, e); err == nil || got != document {
			t.Errorf("%s: %v, %s", name, err, got)
		}
	}
}

func TestALimitThatIsNowhereIsAMistake(t *testing.T) {
	c := config{Limits: []limit{{"memory.max", "max"}}}
	for _, document := range []any{
		map[string]any{}, map[string]any{"linux": map[string]any{"cgroupsPath": "/no/such/cgroup/c"}},
	} {
		if err := c.loosen(document); err == nil {
			t.Errorf("%v: no error", document)
		}
	}
}
