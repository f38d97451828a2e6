package image

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// Allowlist is what may be in an image. It is a text with one rule a line:
//
//	file /usr/local/bin/gitleaks 0755    a file, with its mode
//	dir /work 1777                       a directory, with its mode
//	link /tmp work/tmp                   a link, with its target
//	any /opt/guarddog/**                 whatever is there or below
//	base /usr/**                         the same, and no program in it is looked at
//
// A path is a pattern as path.Match has it. Whatever is in the image has to
// match a rule, and a rule without a wildcard has to match something.
type Allowlist struct{ rules []rule }

type rule struct{ kind, pattern, detail string }

// ReadAllowlist reads one list out of several files.
func ReadAllowlist(names ...string) (*Allowlist, error) {
	l := &Allowlist{}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			text, _, _ := strings.Cut(lines.Text(), "#")
			fields := strings.Fields(text)
			if len(fields) == 0 {
				continue
			}
			r := rule{kind: fields[0]}
			if want := map[string]int{"file": 3, "dir": 3, "link": 3, "any": 2, "base": 2}[r.kind]; want != len(fields) {
				return nil, fmt.Errorf("%s:%d: %q is no rule", name, n, lines.Text())
			}
			r.pattern = fields[1]
			if len(fields) == 3 {
				r.detail = fields[2]
			}
			l.rules = append(l.rules, r)
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (r rule) matches(f File) bool {
	if below, is := strings.CutSuffix(r.pattern, "/**"); is {
		return f.Path == below || strings.HasPrefix(f.Path, below+"/")
	}
	ok, err := path.Match(r.pattern, f.Path)
	return err == nil && ok
}

// allows says whether f is as the rule wants it.
func (r rule) allows(f File) bool {
	switch r.kind {
	case "any", "base":
		return f.Type != "other"
	case "link":
		return f.Type == "link" && (r.detail == "*" || f.Target == r.detail)
	}
	return f.Type == r.kind && f.Mode == r.detail
}

// unwanted are programs that no room has, wherever in it: shells, package
// managers, and the worker's own.
var unwanted = strings.Fields(`
	sh bash busybox dash ash zsh ksh mksh csh tcsh fish rbash toybox pwsh
	apt apt-get apt-cache dpkg apk rpm yum dnf microdnf zypper pacman pip pip3 npm npx gem cargo brew conda
	batlehub sandboxctl sandbox-conformance`)

// Check names what is wrong with an image's files, one line each.
func (l *Allowlist) Check(files []File) []string {
	var faults []string
	used := map[rule]bool{}
	for _, f := range files {
		i := slices.IndexFunc(l.rules, func(r rule) bool { return r.matches(f) })
		if i < 0 {
			faults = append(faults, f.Path+" is on no list of what may be in the image")
			continue
		}
		r := l.rules[i]
		used[r] = true
		if !r.allows(f) {
			faults = append(faults, fmt.Sprintf("%s is a %s with mode %s (target %q), want %s %s", f.Path, f.Type, f.Mode, f.Target, r.kind, r.detail))
		}
		if r.kind != "base" {
			faults = append(faults, suspect(f)...)
		}
	}
	for _, r := range l.rules {
		if !used[r] && !strings.Contains(r.pattern, "*") {
			faults = append(faults, r.pattern+" is missing")
		}
	}
	return faults
}

// suspect names what is wrong with a file whatever the list says.
func suspect(f File) []string {
	var faults []string
	if f.Type != "dir" && slices.Contains(unwanted, path.Base(f.Path)) {
		faults = append(faults, f.Path+" is a shell, a package manager or a program of the worker's")
	}
	if f.Type == "file" && (f.Mode[0] == '4' || f.Mode[0] == '2' || f.Mode[0] == '6') {
		faults = append(faults, f.Path+" is set-id")
	}
	if f.UID != 0 || f.GID != 0 {
		faults = append(faults, fmt.Sprintf("%s belongs to %d:%d, want 0:0: the scanner's user owns nothing in its room", f.Path, f.UID, f.GID))
	}
	return faults
}
