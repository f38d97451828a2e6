package report

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Markdown is the report for a job's summary: the groups, then every spec that
// did not pass, then the kill table.
func Markdown(r *Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Sandbox conformance: %s is **%s**\n\n", cell(r.Target.Name), r.Verdict)
	fmt.Fprintf(&b, "Specification %s, %d specs in %.0f s on %s/%s, kernel %s, uid %d.\n\n", r.SpecVersion, len(r.Specs), r.Seconds, r.Host.OS, r.Host.Arch, cell(r.Host.Kernel), r.Host.UID)
	if c := r.Control; c != nil {
		fmt.Fprintf(&b, "Negative control: %s.\n\n", controlLine(c))
	}
	b.WriteString("| group | pass | fail | not claimed | not run | error |\n|---|---|---|---|---|---|\n")
	for _, g := range groupsOf(r) {
		n := countGroup(r, g)
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", g, n[Pass], n[Fail], n[NotClaimed], n[NotRun], n[Error])
	}
	for _, v := range []Verdict{Error, Fail, NotRun, NotClaimed} {
		listVerdict(&b, r, v)
	}
	if len(r.Mutants) > 0 {
		b.WriteString("\n## Mutants\n\n| mutant | must be killed by | killed | how |\n|---|---|---|---|\n")
		for _, m := range r.Mutants {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(m.Name), m.Killer, yes(m.Killed), cell(m.Reason))
		}
	}
	fmt.Fprintf(&b, "\nReproduce: `%s`\n", strings.ReplaceAll(r.Target.Command, "`", "'"))
	return b.Bytes()
}

func listVerdict(b *bytes.Buffer, r *Report, v Verdict) {
	first := true
	for _, s := range r.Specs {
		if s.Verdict != v {
			continue
		}
		if first {
			fmt.Fprintf(b, "\n## %s\n\n| spec | title | reason |\n|---|---|---|\n", strings.ReplaceAll(string(v), "_", " "))
			first = false
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", s.ID, cell(s.Title), cell(s.Reason))
	}
}

func controlLine(c *Control) string {
	if c.Held {
		return "held; exactly the specs failed that must fail without walls"
	}
	return fmt.Sprintf("not held; saw nothing: %s; failed wrongly: %s", listOrNone(c.Blind), listOrNone(c.Wrong))
}

func listOrNone(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, " ")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "**no**"
}

// cell makes a text that a table's cell can hold.
func cell(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "`", "'").Replace(s)
}

func groupsOf(r *Report) []string {
	var groups []string
	seen := map[string]bool{}
	for _, s := range r.Specs {
		if !seen[s.Group] {
			seen[s.Group] = true
			groups = append(groups, s.Group)
		}
	}
	return groups
}

func countGroup(r *Report, group string) map[Verdict]int {
	n := map[Verdict]int{}
	for _, s := range r.Specs {
		if s.Group == group {
			n[s.Verdict]++
		}
	}
	return n
}
