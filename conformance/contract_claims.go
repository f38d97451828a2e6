package conformance

import (
	"strings"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func constantName(t *T) {
	name := t.s.runtime.Name()
	t.Expect(name).To(gomega.MatchRegexp(`^[a-z][a-z0-9-]*$`))
	t.Expect(t.s.runtime.Name()).To(gomega.Equal(name))
	t.Expect(t.s.target.Name).To(gomega.HavePrefix(name), "reports are filed under the runtime's name")
}

func networkOn(t *T) {
	if t.s.plants.tcp == nil {
		t.NotRun("this host has no address but loopback to listen on")
	}
	spec := t.HostileSpec("connect-tcp", t.s.plants.tcp.Addr().String())
	spec.Network = true
	if !t.s.target.Claims(Network) {
		_, err := t.Run(spec)
		t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "a network that is not claimed was not refused: %v", err)
		t.NotClaimed("refused, as it must be: %v", err)
	}
	r := t.HostileRun(spec)
	t.Expect(r.Achieved).To(gomega.BeTrue(), "claimed, and %s did not answer (%s)", t.s.plants.tcp.Addr(), r.Errno)
}

func imageAsked(t *T) {
	spec := t.HostileSpec("print", "x")
	if t.s.target.Claims(Images) {
		t.Expect(spec.Image).NotTo(gomega.BeEmpty(), "images are claimed and the target names none")
		t.Exited(spec)
		return
	}
	spec.Image = "registry.invalid/no-such-image:latest"
	_, err := t.Run(spec)
	t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "an image that can't be used was not refused: %v", err)
	t.NotClaimed("refused, as it must be: %v", err)
}

func imageMissing(t *T) {
	for _, image := range []string{"localhost/no-such-image-" + t.s.token, "localhost/no-such-image@sha256:" + strings.Repeat("0", 64)} {
		spec := t.HostileSpec("print", "x")
		spec.Image = image
		out, err := t.Run(spec)
		t.Expect(err).To(gomega.HaveOccurred(), "%s is not there, and answered %q", image, out.Stdout)
		// A cluster asks the registry again until the start has to be given up.
		t.Expect(sandbox.KindOf(err)).To(gomega.BeElementOf(sandbox.Refused, sandbox.StartTimeout), "%v", err)
		t.Expect(sandbox.CodeOf(err)).To(gomega.Equal(sandbox.CodeImageMissing), "%v", err)
	}
}

func imageChosen(t *T) {
	if t.s.target.Another == nil {
		t.Broke("images are claimed, and the target makes no second one")
	}
	image, file, err := t.s.target.Another(t.ctx, t.s.setup)
	if err != nil {
		t.Broke("making another image: %v", err)
	}
	spec := t.HostileSpec("read-file", file.Path, file.Content)
	t.Expect(t.HostileRun(spec).Achieved).To(gomega.BeFalse(), "the one image has the other's file")
	spec = t.HostileSpec("read-file", file.Path, file.Content)
	spec.Image = image
	r := t.HostileRun(spec)
	t.Expect(r.Achieved).To(gomega.BeTrue(), "the other image was named, and its file is not there: %s", r.Errno)
}

func probeAsked(t *T) {
	if t.s.target.Claims(Probe) {
		report := t.probe(t.s.runtime, t.room())
		t.Expect(report.Skipped).To(gomega.BeEmpty())
		t.Expect(report.Verdicts).NotTo(gomega.BeEmpty())
		return
	}
	report, err := t.s.runtime.Probe(t.ctx, sandbox.Room{Scanner: t.s.target.Scanner})
	if err != nil {
		t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "%v", err)
		t.NotClaimed("refused, as it must be: %v", err)
	}
	t.Expect(report.Skipped).NotTo(gomega.BeEmpty(), "a probe that is not claimed reported %d verdicts", len(report.Verdicts))
	t.NotClaimed("skipped, as it must be: %s", report.Skipped)
}
