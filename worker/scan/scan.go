package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/findings"
	"github.com/batleforc/batlehub-sandbox/worker/scanner"
)

// Request is one scan.
type Request struct {
	Runtime  sandbox.Runtime
	Scanners []scanner.Definition
	Target   scanner.Target
	Base     scanner.Base
	// Progress is told what begins; it may be nil.
	Progress func(what string)
	// Probed is told each probe's report as it comes; it may be nil.
	Probed func(sandbox.ProbeReport)
}

func (r Request) progress(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// Do probes every room and then scans. The report is whole whatever happens;
// an error is a probe that failed (*sandbox.ProbeError), a runtime that could
// not probe, or the end of ctx, and then nothing or not everything was
// scanned.
func Do(ctx context.Context, r Request) (report Report, err error) {
	report = Report{Runtime: r.Runtime.Name(), Rooms: []Room{}, Scanners: []Scanner{}}
	defer func() { report.Warnings = append(report.Warnings, r.closeJob(ctx)...) }()
	report.Artifact.Name = r.Target.FileName
	if r.Target.Artifact != nil {
		report.Artifact.Size = r.Target.Artifact.Size()
	}
	for _, probe := range Rooms(r.Scanners, r.Base) {
		r.progress("probing %s", RoomName(probe))
		p, err := r.Runtime.Probe(ctx, probe)
		if err != nil {
			report.weigh(Failed)
			return report, err
		}
		report.Rooms = append(report.Rooms, RoomOf(p))
		if r.Probed != nil {
			r.Probed(p)
		}
		if err := p.Err(); err != nil {
			report.weigh(Failed)
			return report, err
		}
	}
	for _, d := range r.Scanners {
		if ctx.Err() != nil {
			report.weigh(Failed)
			return report, stopped(ctx, report)
		}
		s := r.scan(ctx, d)
		report.Scanners = append(report.Scanners, s)
		report.weigh(s.Verdict)
	}
	if ctx.Err() != nil {
		report.weigh(Failed)
		return report, stopped(ctx, report)
	}
	return report, nil
}

// stopped is the error of a scan whose ctx has ended: that of the run which was
// ended by it, for it says what could not be cleaned up.
func stopped(ctx context.Context, report Report) error {
	cause := context.Cause(ctx)
	if n := len(report.Scanners); n > 0 && errors.Is(report.Scanners[n-1].Err, cause) {
		return report.Scanners[n-1].Err
	}
	return cause
}

// Rooms are the rooms that scanners need, each once: a scanner's own, or an
// image with the commands of all that run in it.
func Rooms(scanners []scanner.Definition, base scanner.Base) []sandbox.Room {
	var rooms []sandbox.Room
	for _, d := range scanners {
		shared := slices.IndexFunc(rooms, func(r sandbox.Room) bool { return d.Image != "" && r.Image == d.Image })
		switch {
		case shared < 0:
			rooms = append(rooms, sandbox.Room{
				Scanner: d.Name, Image: d.Image, Commands: []string{d.Command}, Limits: base.Limits, StartTimeout: base.StartTimeout,
				WorkerRoom: d.Image != "" && d.Image == base.WorkerImage,
			})
		case !slices.Contains(rooms[shared].Commands, d.Command):
			rooms[shared].Commands = append(rooms[shared].Commands, d.Command)
		}
	}
	return rooms
}

// RoomName is what a room is called.
func RoomName(r sandbox.Room) string {
	if r.Image != "" {
		return "the image " + r.Image
	}
	return "the room of " + r.Scanner
}

// closeTime bounds the closing of a job, which goes on after a scan's end.
const closeTime = 30 * time.Second

// CloseJob has a runtime remove what it kept for all runs of a job, under a
// context of its own. What is left is a warning: the scan's answer stands, and
// a sweep removes the rest.
func CloseJob(ctx context.Context, rt sandbox.Runtime, worker, job string) []string {
	closer, is := rt.(sandbox.JobCloser)
	if !is {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := closer.CloseJob(ctx, worker, job); err != nil {
		return []string{fmt.Sprintf("what was kept for the runs of %s may be left, for a sweep to remove: %v", job, err)}
	}
	return nil
}

func (r Request) closeJob(ctx context.Context) []string {
	return CloseJob(ctx, r.Runtime, r.Base.Worker, r.Base.Job)
}

func (r Request) scan(ctx context.Context, d scanner.Definition) Scanner {
	s := Scanner{Name: d.Name, Verdict: Clean, Findings: []findings.Finding{}, Runs: []Run{}}
	steps, err := d.Plan(r.Target, r.Base)
	if err != nil {
		s.Verdict, s.Error = Failed, err.Error()
		return s
	}
	for _, step := range steps {
		r.progress("scanning %s with %s", r.Target.FileName, d.Name)
		if !r.step(ctx, step, &s) {
			break
		}
	}
	return s
}

// step makes one run and adds what it came to. It reports whether the scan
// goes on.
func (r Request) step(ctx context.Context, step scanner.Step, s *Scanner) bool {
	begun := time.Now()
	out, err := r.Runtime.Run(ctx, step.Spec)
	s.Runs = append(s.Runs, Run{
		Extraction: out.Result.Extraction, Usage: out.Result.Usage, Phases: out.Result.Phases,
		Millis: time.Since(begun).Milliseconds(),
	})
	if err == nil && out.Refused() != nil {
		s.Verdict, s.Refusal = Refused, out.Refused()
		return false
	}
	var set findings.Set
	if err == nil {
		set, err = step.Parse(findings.Output{Status: out.Status, Stdout: out.Stdout, StderrTail: out.StderrTail})
	}
	if err != nil {
		return s.failed(err, step, out)
	}
	s.Total += set.Total
	s.Findings = append(s.Findings, set.Findings...)
	s.Notes = append(s.Notes, set.Notes...)
	if set.Total > 0 {
		s.Verdict = Findings
	}
	return true
}

func (s *Scanner) failed(err error, step scanner.Step, out sandbox.RunOutput) bool {
	if errors.Is(err, findings.ErrOutput) && out.Result.Signal != "" {
		err = fmt.Errorf("%w (%s)", err, out.Result.Signal)
	}
	s.Err = err
	if step.Optional {
		s.Notes = append(s.Notes, err.Error())
		return true
	}
	s.Verdict, s.Error = Failed, err.Error()
	return false
}
