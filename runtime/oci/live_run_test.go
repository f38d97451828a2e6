package oci

import (
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestAPackageIsUnpackedAndScannedInAContainer(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		spec := l.spec("cat", "/work/pkg/hello")
		spec.Bundle.Entries = []wire.Entry{{Path: wire.MustRelPath("pkg"), Kind: wire.Archive, URL: wire.ArtifactURL}}
		spec.Bundle.Artifact = bundle.BytesArtifact(tarOf(t, "hello", "world"))
		out, err := l.Run(t.Context(), spec)
		if err != nil || string(out.Stdout) != "world" || *out.Status != 0 || out.Result.Extraction.Files != 1 {
			t.Errorf("got %q, %+v, %v", out.Stdout, out.Result, err)
		}
	})
}

func TestAContainersWallsAreThoseOfItsCommandLine(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		env := strings.Fields(l.must("env"))
		slices.Sort(env)
		if !slices.Equal(env, []string{"HOME=/work", "PATH=/usr/local/bin:/usr/bin:/bin"}) {
			t.Errorf("the environment is %q", env)
		}
		l.must("stdin")
		seen := l.must("cat", "/proc/self/mounts", "/proc/self/status", "/proc/net/route")
		for _, want := range []string{"tmpfs /work tmpfs rw,nosuid,nodev", "size=524288k", "Uid:\t65532\t65532\t65532\t65532", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
			if !strings.Contains(seen, want) {
				t.Errorf("no %q in\n%s", want, seen)
			}
		}
		for line := range strings.Lines(seen) {
			f := strings.Fields(line)
			if len(f) > 3 && (f[1] == "/" && !strings.HasPrefix(f[3], "ro") || f[1] == "/dev/shm") || strings.HasPrefix(line, "eth0") {
				t.Errorf("there is %s", line)
			}
		}
		if l.engine == Podman {
			if m := strings.Fields(l.must("cat", "/proc/self/uid_map")); len(m) < 3 || m[1] == "0" || m[2] == "4294967295" {
				t.Errorf("the uid map is %q", m)
			}
		}
	})
}

func TestWorkIsAsLargeAsTheExtractionMayBe(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		spec := l.spec("fill", "/work/big")
		spec.Bundle.Policy.MaxBytes, spec.Bundle.Policy.MaxFileBytes = 16<<20, 16<<20
		out, err := l.Run(t.Context(), spec)
		if err != nil || !strings.Contains(string(out.Stdout), "no space left") {
			t.Errorf("got %q, %v", out.Stdout, err)
		}
	})
}

func TestAScannerThatOutgrowsItsMemoryIsACrashThatSaysSo(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		spec := l.spec("eat")
		spec.Limits.MemoryMB, spec.Limits.AddressSpaceMB = 128, wire.AddressSpaceOff
		_, err := l.Run(t.Context(), spec)
		if sandbox.KindOf(err) != sandbox.Crashed || sandbox.CodeOf(err) != sandbox.CodeOOMKilled {
			t.Errorf("got %v, want crashed (oom_killed)", err)
		}
	})
}

func TestTheProbePassesOnARealEngine(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		report, err := l.Probe(t.Context(), sandbox.Room{Scanner: "tool", Commands: []string{"tool"}})
		if err != nil || report.Err() != nil {
			t.Fatalf("got %v, %v, %s", report.Err(), err, report.Hint)
		}
		for _, v := range report.Verdicts {
			if v.Outcome != wire.Pass {
				t.Errorf("%+v", v)
			}
		}
		if len(report.Commands) != 1 || report.UID != UID {
			t.Errorf("got %+v", report)
		}
	})
}

func TestTheProbeNamesWhatAnImageOrAnExtraArgumentBreaks(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		canary := listener(t)
		for _, c := range []struct {
			extra []string
			image map[string]*testkit.ImageFile
			want  wire.AssertionID
		}{
			// Neither engine starts a container on two networks of which one is none.
			{extra: []string{"--network", "host"}, want: wire.AssertResult},
			{extra: []string{"-e", "SECRET=1"}, want: wire.AssertEnvironment},
			{extra: []string{"--read-only=false"}, want: wire.AssertReadOnlyRoot},
			{extra: []string{"--cap-add", "NET_RAW"}, want: wire.AssertUnprivileged},
			{image: map[string]*testkit.ImageFile{"/usr/bin/sh": {Content: "#!", Mode: 0o755}}, want: wire.AssertRoom},
			{image: map[string]*testkit.ImageFile{"/usr/bin/tool": nil, "/usr/bin/other": {Mode: 0o755}}, want: wire.AssertCommand},
			{image: map[string]*testkit.ImageFile{"/usr/local/bin/batlehub-sandbox": nil}, want: wire.AssertResult},
		} {
			r := l.with(func(config *Config) {
				config.ExtraArgs, config.Canaries = c.extra, canary
				if c.image != nil {
					config.Image = testkit.AgentImage(t, l.engine, nil, c.image)
				}
			})
			report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "tool", Commands: []string{"tool"}})
			v, failed := report.Failed()
			if err != nil || !failed || v.ID != c.want || !strings.Contains(report.Hint, docs) && v.ID != wire.AssertResult {
				t.Errorf("%v: got %+v, %q, %v, want %s", c.extra, v, report.Hint, err, c.want)
			}
		}
	})
}
