package seccomp

import (
	"fmt"
	"strings"
)

// TableBegin and TableEnd stand around the rendered table in a document.
const (
	TableBegin = "<!-- table: rendered by tools/seccompgen, do not edit -->"
	TableEnd   = "<!-- end of table -->"
)

// Markdown renders the table for docs/seccomp.md, group by group.
func Markdown() string {
	var b strings.Builder
	for _, g := range Groups() {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| call | answer | why |\n|---|---|---|\n", g.Name, g.About)
		for _, r := range Rules() {
			if r.Group == g {
				fmt.Fprintf(&b, "| %s | `%s` | %s |\n", r.cell(), r.Answer, r.reason())
			}
		}
	}
	b.WriteString("\n")
	return b.String()
}

func (r Rule) cell() string {
	calls := "`" + strings.Join(r.Calls, "` `") + "`"
	if r.When == nil {
		return calls
	}
	values := make([]string, len(r.When.Values))
	for i, v := range r.When.Values {
		values[i] = "`" + strings.ReplaceAll(v.Name, "|", `\|`) + "`"
	}
	if r.When.Test == AnyOf && len(values) == 1 {
		return fmt.Sprintf("%s where argument %d is %s", calls, r.When.Arg, values[0])
	}
	test := map[Test]string{AnyOf: "is one of", NoneOf: "is none of", AnyBit: "has a bit of"}[r.When.Test]
	return fmt.Sprintf("%s where argument %d %s %s", calls, r.When.Arg, test, strings.Join(values, ", "))
}

func (r Rule) reason() string {
	var links []string
	for link := range strings.SplitSeq(r.Link, ", ") {
		switch {
		case strings.HasPrefix(link, "CVE-"):
			links = append(links, fmt.Sprintf("[%s](https://www.cve.org/CVERecord?id=%s)", link, link))
		case link != "":
			links = append(links, fmt.Sprintf("<%s>", link))
		}
	}
	if len(links) == 0 {
		return r.Why
	}
	return r.Why + " (" + strings.Join(links, ", ") + ")"
}
