package findings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Output is what a scanner left behind.
type Output struct {
	// Status is its exit status, nil when a signal killed it.
	Status *int
	Stdout []byte
	// StderrTail is the end of its stderr, for messages.
	StderrTail string
}

// ErrOutput is wrapped by every output that is no answer: a status that the
// scanner does not use for one, or bytes that are not in its format.
var ErrOutput = errors.New("not an answer")

// Format is how a scanner's output is read.
type Format struct {
	// Name is the value of a scanner's findings key.
	Name string
	// Statuses are the exit statuses that are an answer.
	Statuses []int
	parse    func(scanner string, o Output) (Set, error)
	explain  map[int]string
}

// Formats lists every format by name.
var Formats = []Format{
	{Name: "gitleaks", Statuses: []int{0, GitleaksLeaks}, parse: parseGitleaks},
	{Name: "trivy", Statuses: []int{0}, parse: parseTrivy},
	{Name: "guarddog", Statuses: []int{0, 1}, parse: parseGuarddog},
	{Name: "postmortem", Statuses: []int{0, 1}, parse: parsePostmortem, explain: map[int]string{2: "it recognised no ecosystem"}},
	{Name: "lines", Statuses: []int{0, 1}, parse: parseLines},
	{Name: "status", Statuses: []int{0, 1}, parse: parseStatus},
}

// Find returns the format of that name.
func Find(name string) (Format, error) {
	for _, f := range Formats {
		if f.Name == name {
			return f, nil
		}
	}
	return Format{}, fmt.Errorf("findings format %.32q is not known; one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the formats that a configuration may name.
func Names() []string {
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return names
}

// Parse reads a scanner's output. What is no answer is an error that wraps
// ErrOutput, and never an empty set.
func (f Format) Parse(scanner string, o Output) (Set, error) {
	switch {
	case o.Status == nil:
		return Set{}, fmt.Errorf("%w: the scanner was killed%s", ErrOutput, stderr(o))
	case !slices.Contains(f.Statuses, *o.Status):
		why := f.explain[*o.Status]
		if why != "" {
			why = ", " + why
		}
		return Set{}, fmt.Errorf("%w: the scanner exited %d%s%s", ErrOutput, *o.Status, why, stderr(o))
	}
	s, err := f.parse(scanner, o)
	if err != nil {
		return Set{}, fmt.Errorf("%w: %s output: %w%s", ErrOutput, f.Name, err, stderr(o))
	}
	s.sort()
	return s, nil
}

// stderr is the last line of a scanner's stderr, quoted.
func stderr(o Output) string {
	tail := strings.TrimSpace(o.StderrTail)
	tail = tail[strings.LastIndexByte(tail, '\n')+1:]
	if tail = text(tail); tail == "" {
		return ""
	}
	return fmt.Sprintf(": %q", clip(tail, 300))
}

// decode reads one JSON document and nothing behind it into v.
func decode(b []byte, v any) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return errors.New("it is empty, want a JSON document")
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("not the JSON that was expected: %s", clip(text(err.Error()), 200))
	}
	return nil
}

// below is a path of the sandbox as it is below the artifact, the same for
// every runtime: the work directory has another name without walls.
func below(path string) string {
	for _, root := range []string{"/work/", "./", "scan/", "artifact/"} {
		path = strings.TrimPrefix(path, root)
	}
	return path
}
