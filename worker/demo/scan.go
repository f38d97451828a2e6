package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// scan scans one package and checks that the answer is a right one.
func (d *demo) scan(ctx context.Context, p pack) error {
	format := "json"
	if p.whole {
		format = "table"
		fmt.Printf("\nIn whole, %s (%s):\n\n", filepath.Base(p.file), p.from)
	}
	begun := time.Now()
	cmd := exec.CommandContext(ctx, d.sandboxctl, "scan", "--rooms", d.rooms(), "--scanner", "gitleaks", "--format", format, p.file) //nolint:gosec // the demo's own program
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	status := 0
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		status = exit.ExitCode()
	} else if err != nil {
		return fmt.Errorf("running sandboxctl: %w", err)
	}
	if p.whole {
		if _, err := os.Stdout.Write(out); err != nil {
			return err
		}
	} else if err := summary(p, out, time.Since(begun)); err != nil && status < 2 {
		return err
	}
	if !slices.Contains(p.want, status) {
		return fmt.Errorf("scanning %s (%s) ended with status %d, want %v", filepath.Base(p.file), p.from, status, p.want)
	}
	return nil
}

// report is what a line says of a scan.
type report struct {
	Verdict string
	Rooms   []struct {
		Verdicts []struct{ Outcome string }
	}
	Scanners []struct {
		Total    int
		Findings []struct{ Rule, File string }
		Refusal  *struct{ Entry, Rule string }
		Runs     []struct{ Extraction struct{ Files int } }
	}
}

func summary(p pack, out []byte, took time.Duration) error {
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("reading sandboxctl's report of %s: %w", p.file, err)
	}
	if len(r.Rooms) == 0 || len(r.Scanners) == 0 {
		return fmt.Errorf("sandboxctl scanned nothing of %s", p.file)
	}
	held := 0
	for _, v := range r.Rooms[0].Verdicts {
		if v.Outcome == "pass" {
			held++
		}
	}
	s := r.Scanners[0]
	var said []string
	if len(s.Runs) > 0 {
		said = append(said, fmt.Sprintf("%d files", s.Runs[0].Extraction.Files))
	}
	if s.Refusal != nil {
		said = []string{fmt.Sprintf("entry %s (%s)", s.Refusal.Entry, s.Refusal.Rule)}
	}
	for _, f := range s.Findings[:min(2, len(s.Findings))] {
		said = append(said, f.Rule+" in "+f.File)
	}
	if s.Total > 2 {
		said = append(said, fmt.Sprintf("%d findings in all", s.Total))
	}
	fmt.Printf("  %-9s %-52s %d walls held, %s (%.1fs)\n", r.Verdict, filepath.Base(p.file)+", "+p.from, held, strings.Join(said, ", "), took.Seconds())
	return nil
}
