package findings

import "fmt"

// Timeline reads an npm package's release history, as postmortem prints it,
// and returns what changed at one version: a take-over shows there as a new
// publisher, a moved repository or a new install script. A version that the
// registry no longer lists is itself a finding.
func Timeline(scanner, version string, o Output) (Set, error) {
	var history struct {
		Releases []struct {
			Version string
			Events  []struct{ Kind, Detail string }
		}
	}
	if o.Status == nil || *o.Status != 0 {
		return Set{}, fmt.Errorf("%w: the timeline did not end well%s", ErrOutput, stderr(o))
	}
	if err := decode(o.Stdout, &history); err != nil {
		return Set{}, fmt.Errorf("%w: timeline output: %w%s", ErrOutput, err, stderr(o))
	}
	if history.Releases == nil {
		return Set{}, fmt.Errorf("%w: timeline output: no releases in it", ErrOutput)
	}
	var s Set
	listed := false
	for _, r := range history.Releases {
		if r.Version != version {
			continue
		}
		listed = true
		for _, e := range r.Events {
			if transitions[e.Kind] {
				s.add(Finding{Scanner: scanner, Rule: e.Kind, Severity: Medium, Message: firstOf(e.Detail, e.Kind), Package: version})
			}
		}
	}
	if !listed {
		s.add(Finding{Scanner: scanner, Rule: "unpublished", Severity: High, Package: version, Message: "the registry's release history does not have this version"})
	}
	s.sort()
	return s, nil
}

// transitions are the events that a take-over looks like; a first release or a
// deprecation is history.
var transitions = map[string]bool{
	"publisher_changed": true, "maintainer_changed": true, "script_added": true, "install_script_added": true,
	"install_hook_added": true, "repo_changed": true, "repository_changed": true, "repository_moved": true,
	"dormancy": true, "dormant": true, "dormant_release": true, "provenance_removed": true, "attestation_removed": true,
}
