package findings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// GitleaksLeaks is the status that gitleaks is told to use for leaks. Its
// default is the status of its own failures too.
const GitleaksLeaks = 3

func parseGitleaks(scanner string, o Output) (Set, error) {
	var leaks []struct {
		RuleID, Description, Match, File string
		StartLine                        int64
	}
	if err := decode(o.Stdout, &leaks); err != nil {
		return Set{}, err
	}
	if leaks == nil {
		return Set{}, errors.New("null, want a list")
	}
	var s Set
	for _, l := range leaks {
		s.add(Finding{
			Scanner: scanner, Rule: l.RuleID, Severity: High, Message: l.Description,
			File: below(l.File), Line: l.StartLine, Evidence: l.Match,
		})
	}
	if found := len(leaks) > 0; found != (*o.Status == GitleaksLeaks) {
		return Set{}, fmt.Errorf("%d leaks, but status %d", len(leaks), *o.Status)
	}
	return s, nil
}

func parseTrivy(scanner string, o Output) (Set, error) {
	var report struct {
		SchemaVersion int
		Results       []struct {
			Target            string
			Vulnerabilities   []struct{ VulnerabilityID, PkgName, InstalledVersion, FixedVersion, Severity, Title string }
			Secrets           []trivyHit
			Misconfigurations []trivyHit
			Licenses          []struct{ Severity, Name, PkgName, FilePath string }
		}
	}
	if err := decode(o.Stdout, &report); err != nil {
		return Set{}, err
	}
	if report.SchemaVersion == 0 {
		return Set{}, errors.New("no SchemaVersion")
	}
	var s Set
	for _, r := range report.Results {
		for _, v := range r.Vulnerabilities {
			message := v.Title
			if message == "" {
				message = v.VulnerabilityID + " in " + v.PkgName
			}
			if v.FixedVersion != "" {
				message += ", fixed in " + v.FixedVersion
			}
			s.add(Finding{
				Scanner: scanner, Rule: v.VulnerabilityID, Severity: ParseSeverity(v.Severity), Message: message,
				File: below(r.Target), Package: strings.TrimSuffix(v.PkgName+"@"+v.InstalledVersion, "@"),
			})
		}
		for _, h := range append(r.Secrets, r.Misconfigurations...) {
			h.addTo(&s, scanner, r.Target)
		}
		for _, l := range r.Licenses {
			s.add(Finding{Scanner: scanner, Rule: l.Name, Severity: ParseSeverity(l.Severity), Message: "license " + l.Name, File: below(l.FilePath), Package: l.PkgName})
		}
	}
	return s, nil
}

// trivyHit is a secret or a misconfiguration.
type trivyHit struct {
	RuleID, ID, Severity, Title, Message, Match string
	StartLine                                   int64
}

func (h trivyHit) addTo(s *Set, scanner, target string) {
	f := Finding{
		Scanner: scanner, Rule: h.RuleID, Severity: ParseSeverity(h.Severity), Message: h.Title,
		File: below(target), Line: h.StartLine, Evidence: h.Match,
	}
	if f.Rule == "" {
		f.Rule = h.ID
	}
	if h.Message != "" {
		f.Message = h.Message
	}
	s.add(f)
}

// parseGuarddog takes both documented shapes: the results at the top, or below
// "result" with the package's name beside them; one of them, or a list.
func parseGuarddog(scanner string, o Output) (Set, error) {
	documents := []json.RawMessage{o.Stdout}
	if bytes.HasPrefix(bytes.TrimSpace(o.Stdout), []byte("[")) {
		documents = nil
		if err := decode(o.Stdout, &documents); err != nil {
			return Set{}, err
		}
	}
	var s Set
	for _, document := range documents {
		var d struct {
			Results, Errors map[string]json.RawMessage
			Result          struct{ Results, Errors map[string]json.RawMessage }
		}
		if err := decode(document, &d); err != nil {
			return Set{}, err
		}
		results := d.Results
		if results == nil {
			results = d.Result.Results
		}
		if results == nil {
			return Set{}, errors.New("no results in it")
		}
		for rule, hits := range results {
			addGuarddog(&s, scanner, rule, hits)
		}
		for _, failed := range []map[string]json.RawMessage{d.Errors, d.Result.Errors} {
			for _, rule := range slices.Sorted(maps.Keys(failed)) {
				s.note("rule %s failed: %s", rule, failed[rule])
			}
		}
	}
	if len(documents) == 0 {
		return Set{}, errors.New("an empty list")
	}
	return s, nil
}

// addGuarddog adds one rule's hits. A source rule has a list of places, a
// metadata rule one sentence, and a rule that hit nothing an empty value.
func addGuarddog(s *Set, scanner, rule string, hits json.RawMessage) {
	var places []struct{ Location, Code, Message string }
	if json.Unmarshal(hits, &places) == nil {
		for _, p := range places {
			file, line := splitLine(below(p.Location))
			s.add(Finding{Scanner: scanner, Rule: rule, Severity: guarddogSeverity(rule), Message: firstOf(p.Message, rule), File: file, Line: line, Evidence: p.Code})
		}
		return
	}
	var sentence string
	if json.Unmarshal(hits, &sentence) == nil {
		if sentence != "" {
			s.add(Finding{Scanner: scanner, Rule: rule, Severity: guarddogSeverity(rule), Message: sentence})
		}
		return
	}
	if trimmed := string(bytes.TrimSpace(hits)); trimmed != "{}" && trimmed != "null" && trimmed != "false" {
		s.add(Finding{Scanner: scanner, Rule: rule, Severity: guarddogSeverity(rule), Message: rule, Evidence: trimmed})
	}
}

// guarddogSeverity goes by the family that a rule's name declares; GuardDog
// itself gives none.
func guarddogSeverity(rule string) Severity {
	for _, family := range []string{"install", "exec", "overwrite", "exfiltrat", "steganography", "shady", "backdoor"} {
		if strings.Contains(strings.ToLower(rule), family) {
			return High
		}
	}
	return Medium
}

func parsePostmortem(scanner string, o Output) (Set, error) {
	var report struct {
		SchemaVersion int `json:"schema_version"`
		Findings      []struct{ Severity, Category, Detail, Location, Evidence, Dependency string }
		Diagnostics   []struct{ Ecosystem, Kind, Message string }
	}
	if err := decode(o.Stdout, &report); err != nil {
		return Set{}, err
	}
	if report.SchemaVersion == 0 || report.Findings == nil {
		return Set{}, errors.New("no schema_version or no findings")
	}
	var s Set
	for _, d := range report.Diagnostics {
		s.note("%s: %s", d.Kind, d.Message)
	}
	for _, f := range report.Findings {
		file, line := splitLine(below(f.Location))
		s.add(Finding{
			Scanner: scanner, Rule: f.Category, Severity: ParseSeverity(f.Severity), Message: firstOf(f.Detail, f.Category),
			File: file, Line: line, Package: f.Dependency, Evidence: f.Evidence,
		})
	}
	return s, nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// splitLine takes a line number off the end of "file:12" or "file:12:3".
func splitLine(location string) (string, int64) {
	parts := strings.Split(location, ":")
	for i := 1; i < len(parts); i++ {
		if n, err := strconv.ParseInt(parts[i], 10, 32); err == nil && n > 0 {
			return strings.Join(parts[:i], ":"), n
		}
	}
	return location, 0
}
