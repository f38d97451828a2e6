package rehearse

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/scanner"
)

// Config plans a run of every configured scanner over an artifact of
// nothing, and refuses what no agent would follow: found at load, and not with
// the first artifact. Its errors are *config.Error. What it merely finds odd it
// adds to the configuration's warnings.
func Config(c *config.Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.Scanners)) {
		s := c.Scanners[name]
		if !scanner.Needed(s) {
			continue
		}
		d, err := scanner.Define(s)
		if err != nil {
			return err
		}
		if err := Network(c, d); err != nil {
			return err
		}
		if err := checkPlan(d); err != nil {
			return &config.Error{File: s.File, Line: s.Line, Message: fmt.Sprintf("scanner '%s' can't be run: %v", name, err)}
		}
	}
	return checkPins(c)
}

// checkPins refuses a pinned digest whose scanner has a slip in its name: the room
// it was meant for would be held to a weaker one, or to none. One of any other
// name is said and kept: it may be that of a room for commands alone, or lie in a
// file that several hosts share. A predefined scanner may be named without a
// table of its own.
func checkPins(c *config.Config) error {
	if !c.Worker.Sandbox.Pinned() {
		return nil
	}
	known := slices.Concat(slices.Sorted(maps.Keys(c.Scanners)), scanner.Predefined())
	for _, pin := range c.Worker.Sandbox.Crun.Pins {
		if slices.Contains(known, pin.Scanner) {
			continue
		}
		message := fmt.Sprintf("[worker.sandbox.crun.digests] pins %q, which is no scanner here", pin.Scanner)
		if near := config.Nearest(pin.Scanner, known); near != "" {
			return &config.Error{File: pin.File, Line: pin.Line, Message: fmt.Sprintf(
				"%s; did you mean %q? (the digest of a room without a scanner goes beside it: sandboxctl tree --pin)", message, near)}
		}
		c.Warnings = append(c.Warnings, config.Warning{File: pin.File, Line: pin.Line, Message: fmt.Sprintf(
			"%s; it holds for sandboxctl run --room %s alone", message, pin.Scanner)})
	}
	return nil
}

// Network refuses a scanner whose type needs a network where no run can have
// one. Its error is a *config.Error.
func Network(c *config.Config, d scanner.Definition) error {
	if !c.Worker.Sandbox.Offline() || !d.Network {
		return nil
	}
	s := c.Scanners[d.Name]
	return &config.Error{File: s.File, Line: s.Line, Message: fmt.Sprintf("network is true on scanner '%s' by its type, and %s", d.Name, config.NoNetwork(c.Worker.Sandbox.Runtime))}
}

// ecosystems are those that a scanner may be configured for. It is planned for
// the first that it takes.
var ecosystems = []string{"npm", "pypi", "golang"}

func checkPlan(d scanner.Definition) error {
	base := scanner.Base{Worker: "worker", Job: "job", Work: "/work", Limits: wire.DefaultLimits(), Policy: wire.DefaultExtractPolicy(), StartTimeout: time.Second}
	for _, e := range ecosystems {
		target := scanner.Target{
			Artifact: bundle.BytesArtifact([]byte{0}), FileName: "artifact",
			Package: &scanner.Package{Ecosystem: e, Name: "name", Version: "1"},
		}
		steps, err := d.Plan(target, base)
		if errors.Is(err, scanner.ErrUnsupported) {
			continue
		}
		if err != nil {
			return err
		}
		for _, step := range steps {
			if err := checkSpec(step.Spec); err != nil {
				return err
			}
		}
		break
	}
	room := sandbox.Room{Scanner: d.Name, Commands: []string{d.Command}}
	_, err := bundle.ProbeManifest(room, "worker", nil).Encode()
	return err
}

func checkSpec(spec sandbox.RunSpec) error {
	m := bundle.Manifest(spec, nil)
	for i := range m.Entries {
		if m.Entries[i].URL == wire.ArtifactURL {
			m.Entries[i].URL = "file:///work/in/artifact"
		}
	}
	if _, err := m.Encode(); err != nil {
		return err
	}
	return checkPlaces(m.Entries)
}

// checkPlaces refuses two inputs at one place, and one below a file.
func checkPlaces(entries []wire.Entry) error {
	for i, a := range entries {
		for j, b := range entries {
			switch {
			case i == j:
			case a.Path == b.Path:
				return fmt.Errorf("two inputs go to %q in its layout", a.Path)
			case a.Kind == wire.File && strings.HasPrefix(b.Path.String(), a.Path.String()+"/"):
				return fmt.Errorf("its layout has a file %q and below it %q", a.Path, b.Path)
			}
		}
	}
	return nil
}
