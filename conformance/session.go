package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Session is one target under the suite: its runtime, the secrets planted
// around it, and what was found.
type Session struct {
	target  *Target
	options Options
	setup   Setup
	// token marks everything the suite makes, so that only that is removed.
	token   string
	plants  *plants
	runtime sandbox.Runtime
	opened  error
	started time.Time
	// image is what every run names.
	image   string
	report  report.Report
	attempt int
	// workers counts the worker processes that were started.
	workers int
	// seen is what was around when the last spec had ended and nothing of it
	// was left; nil when that is not known.
	seen map[string]bool
	// shared says that token, programs and plants are another session's.
	shared bool
}

// Open plants the secrets and makes the target's runtime. Where the runtime
// can't be made the session is still usable: every spec of it fails, because a
// target that can't make a sandbox is none.
func Open(ctx context.Context, target *Target, options Options) (*Session, error) {
	if options.Programs["hostile"] == "" {
		return nil, errors.New("opening the suite: no hostile program was given")
	}
	if options.Bounds == (Bounds{}) {
		options.Bounds = DefaultBounds()
	}
	s := &Session{target: target, options: options, token: newToken()}
	dir, err := os.MkdirTemp("", "sandbox-conformance-"+s.token+"-")
	if err != nil {
		return nil, fmt.Errorf("opening the suite: %w", err)
	}
	s.setup = Setup{Dir: dir, Token: s.token, Worker: "conformance-" + s.token}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the suite: %w", err), os.RemoveAll(dir))
	}
	s.open(ctx)
	return s, nil
}

// beside opens a session of another target between the same plants, with a
// directory of its own. It has to be closed before s is.
func (s *Session) beside(ctx context.Context, target *Target, name string) (*Session, error) {
	inner := &Session{target: target, options: s.options, token: s.token, plants: s.plants, setup: s.setup, shared: true}
	inner.options.Log = nil
	inner.setup.Dir = filepath.Dir(s.setup.Dir)
	if err := inner.prepareDir(name); err != nil {
		return nil, fmt.Errorf("opening the suite: %w", err)
	}
	inner.setup.Dir = filepath.Join(inner.setup.Dir, name)
	inner.open(ctx)
	return inner, nil
}

// open makes the runtime.
func (s *Session) open(ctx context.Context) {
	target := s.target
	s.started = time.Now()
	s.runtime, s.opened = target.New(ctx, s.setup)
	if s.image = target.Image; target.ImageOf != nil && s.opened == nil {
		if s.image, s.opened = target.ImageOf(ctx, s.setup); s.opened != nil {
			s.opened = errors.Join(s.opened, s.runtime.Close())
		}
	}
	s.report = report.Report{
		SpecVersion: report.SpecVersion, Started: s.started.UTC(), Host: thisHost(),
		Target:  report.Target{Name: target.Name, Capabilities: names(target.Capabilities), Versions: target.Versions, Command: target.Command},
		Mutants: []report.Mutant{},
	}
}

// prepare copies the programs to names of this session and plants the secrets.
func (s *Session) prepare() error {
	// Every user has to pass through: runtimes drop to users of their own.
	if err := os.Chmod(s.setup.Dir, 0o755); err != nil {
		return err
	}
	s.setup.Programs = map[string]string{}
	for name, path := range s.options.Programs {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// The name carries the token: that is how a process left behind is
		// known to be this session's.
		to := filepath.Join(s.setup.Dir, "programs", s.named(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o755); err != nil {
			return err
		}
		s.setup.Programs[name] = to
	}
	if err := s.prepareDir("target"); err != nil {
		return err
	}
	planted, err := plant(s.setup.Dir, s.token, s.setup.Programs["hostile"])
	if err != nil {
		return err
	}
	s.plants = planted
	s.setup.Canaries = planted.canaries()
	s.setup.Dir = filepath.Join(s.setup.Dir, "target")
	return nil
}

func (s *Session) prepareDir(name string) error {
	dir := filepath.Join(s.setup.Dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// named is a program's name in this session.
func (s *Session) named(name string) string {
	if name == "hostile" {
		return "hostile-" + s.token
	}
	return name
}

// Close closes the runtime and removes what the suite planted and made.
func (s *Session) Close() error {
	var errs []error
	if s.opened == nil {
		errs = append(errs, s.runtime.Close())
	}
	s.endProcesses()
	if s.target.Release != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		errs = append(errs, s.target.Release(ctx, s.setup))
	}
	if s.shared {
		return errors.Join(append(errs, removeAll(s.setup.Dir))...)
	}
	errs = append(errs, s.plants.remove())
	errs = append(errs, removeAll(filepath.Dir(s.setup.Dir)))
	return errors.Join(errs...)
}

// endProcesses ends what a broken target has left running. Only processes of
// this session's own program are meant, known by the token in its name.
func (s *Session) endProcesses() {
	for pid := range s.alive() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	s.eventually(func() bool { return len(s.alive()) == 0 })
}

// removeAll removes a tree of the suite's own, closed directories in it too.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// Report judges all that was checked so far.
func (s *Session) Report() *report.Report {
	r := s.report
	r.Seconds = time.Since(s.started).Seconds()
	if s.options.WithoutWalls {
		r.Control = judgeControl(r.Specs)
	}
	r.Judge()
	return &r
}

// Run checks every spec in order, then the mutants, and returns the report.
func (s *Session) Run(ctx context.Context) *report.Report {
	var wanted []Spec
	for _, spec := range Specs() {
		if s.options.Focus == nil || s.options.Focus(spec) {
			wanted = append(wanted, spec)
		}
	}
	for len(wanted) > 0 && ctx.Err() == nil {
		n := s.together(wanted)
		if n == 1 {
			s.Check(ctx, wanted[0])
		} else {
			s.checkTogether(ctx, wanted[:n])
		}
		wanted = wanted[n:]
	}
	return s.Report()
}

// judgeControl compares what a runtime without walls made of each spec with
// what it must make of it.
func judgeControl(specs []report.Spec) *report.Control {
	c := &report.Control{Blind: []string{}, Wrong: []string{}}
	for _, s := range specs {
		switch {
		case s.Expected == report.Fail && s.Verdict == report.Pass:
			c.Blind = append(c.Blind, s.ID)
		case s.Expected == report.Pass && (s.Verdict == report.Fail || s.Verdict == report.Error):
			c.Wrong = append(c.Wrong, s.ID)
		}
	}
	c.Held = len(c.Blind)+len(c.Wrong) == 0 && slices.ContainsFunc(specs, func(s report.Spec) bool { return s.Expected == report.Fail })
	return c
}

func newToken() string {
	var b [5]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func names(list []Capability) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = string(c)
	}
	return out
}

func thisHost() report.Host {
	var u unix.Utsname
	kernel := "unknown"
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	return report.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: kernel, UID: os.Getuid(), CPUs: runtime.NumCPU()}
}
