package findings

import (
	"bytes"
	"errors"
)

func parseLines(scanner string, o Output) (Set, error) {
	var s Set
	for line := range bytes.Lines(o.Stdout) {
		if line := text(string(line)); line != "" {
			s.add(Finding{Scanner: scanner, Rule: "line", Severity: Unknown, Message: line})
		}
	}
	if *o.Status == 1 && s.Total == 0 {
		return Set{}, errors.New("status 1, but nothing was printed")
	}
	return s, nil
}

func parseStatus(scanner string, o Output) (Set, error) {
	var s Set
	if *o.Status == 1 {
		first, _, _ := bytes.Cut(bytes.TrimSpace(o.Stdout), []byte("\n"))
		s.add(Finding{Scanner: scanner, Rule: "status", Severity: Unknown, Message: firstOf(text(string(first)), "the scanner exited 1")})
	}
	return s, nil
}
