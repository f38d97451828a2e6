package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
	"github.com/batleforc/batlehub-sandbox/worker/scan"
)

type recordFlags struct {
	output, strace, purl string
	replace              bool
}

// slower is how many times longer a scanner may take while it is traced.
const slower = 10

func (a *app) recordCommand() *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use: "record SCANNER ARTIFACT…", Short: "Write a scanner's own seccomp profile from traced runs",
		Long: `Scans each artifact under runtime "crun" with strace attached, and writes what
agent and scanner called as a seccomp profile: those calls are allowed, calls
that were refused stay refused, and any other kills the scanner. Prints the
lines of the configuration that use it.

One run shows what one input needs. Give every kind that the scanner sees in
service: a package that it takes, one that it finds something in, a broken one,
a large one. Needs strace, and a program other than runsc.`,
		Example: `  sandboxctl record gitleaks clean.tgz secret.tgz broken.tgz --output gitleaks.seccomp.json`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("the scanner's name is missing; usage: %s", c.UseLine())
			case len(args) == 1:
				return usagef("an artifact is missing; usage: %s", c.UseLine())
			case f.output == "":
				return usagef("--output is missing: the file to write the profile to")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.record(c, args[0], args[1:], f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.output, "output", "", "`file` to write the profile to")
	flags.BoolVar(&f.replace, "force", false, "replace that file if it exists")
	flags.StringVar(&f.strace, "strace", "strace", "the `program` that traces")
	flags.StringVar(&f.purl, "purl", "", "package `URL` of the artifacts, for scanners that need to know")
	return c
}

func (a *app) record(c *cobra.Command, name string, artifacts []string, f recordFlags) (err error) {
	ctx := c.Context()
	output, err := filepath.Abs(f.output)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(output); err == nil && !f.replace {
		return usagef("%s exists; give --force to replace it", f.output)
	}
	conf, definitions, err := a.prepare([]string{name})
	if err != nil {
		return err
	}
	// What is recorded is what the scanner calls, and not what an earlier
	// profile lets it.
	if s, ok := conf.Scanners[name]; ok {
		s.SeccompProfile, s.SeccompSHA256 = "", ""
		conf.Scanners[name] = s
	}
	s, err := a.openWith(ctx, conf, definitions)
	if err != nil {
		return err
	}
	defer func() { err = s.end(err) }()
	specs, names, err := a.recordSpecs(c, s, artifacts, f)
	if err != nil {
		return err
	}
	progress := ui.NewProgress(a.stderr)
	defer progress.Stop()
	progress.Start("probing the room of " + name)
	room := scan.Rooms(s.scanners, s.base)[0]
	probed, err := s.Probe(ctx, room)
	if err == nil {
		err = probed.Err()
	}
	if err != nil {
		progress.Stop()
		return a.refusal(err)
	}
	p, done := &printer{w: a.stdout}, 0
	progress.Start("recording " + names[0])
	profile, err := s.Record(ctx, f.strace, room, specs, func(out sandbox.RunOutput) {
		progress.Stop()
		p.line("%s: %s", names[done], ended(out))
		if done++; done < len(names) {
			progress.Start("recording " + names[done])
		}
	})
	progress.Stop()
	if err = cmp.Or(err, context.Cause(ctx)); err != nil {
		return err
	}
	if err := writeProfile(output, profile.File, f.replace); err != nil {
		return fmt.Errorf("writing the profile: %w", plainPathError(err))
	}
	p.line("%s: %s from %s; to use it:", output, plural(len(profile.Calls), "system call"), plural(len(specs), "run")+" and a probe")
	p.line("")
	p.line("[scanners.%s]", name)
	p.line("seccomp_profile = %q", output)
	p.line("seccomp_sha256  = %q", profile.SHA256)
	return p.err
}

// recordSpecs are the runs to record: those of a scan of each artifact, with
// more time.
func (a *app) recordSpecs(c *cobra.Command, s *session, artifacts []string, f recordFlags) (specs []sandbox.RunSpec, names []string, err error) {
	for _, path := range artifacts {
		target, err := scanFlags{purl: f.purl}.target(c, path, s.config.Worker.Sandbox.MaxArtifactMB)
		if err != nil {
			return nil, nil, err
		}
		steps, err := s.scanners[0].Plan(target, s.base)
		if err != nil {
			return nil, nil, fmt.Errorf("could not record %s: %w", path, err)
		}
		for _, step := range steps {
			if step.Optional && step.Spec.Network {
				continue // It is refused in service too.
			}
			step.Spec.Timeout = min(slower*step.Spec.Timeout, 24*time.Hour)
			specs, names = append(specs, step.Spec), append(names, path)
		}
	}
	return specs, names, nil
}

// ended says how a recorded run ended.
func ended(out sandbox.RunOutput) string {
	switch {
	case out.Refused() != nil:
		return "refused: " + refusalWords(out.Refused())
	case out.Status == nil:
		return "the scanner was killed by " + out.Result.Signal
	}
	return fmt.Sprintf("the scanner exited %d", *out.Status)
}

// writeProfile writes the file anew: a profile that is in use is never changed
// under its user.
func writeProfile(path string, b []byte, replace bool) error {
	if replace {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a profile is no secret
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
