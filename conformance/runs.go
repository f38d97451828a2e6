package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// evidenceCap is how many runs of one spec are kept as evidence.
const evidenceCap = 12

var evidenceMu sync.Mutex // specs may run things concurrently

// Program is argv[0] of a program in the room.
func (t *T) Program(name string) string { return t.s.target.Program(t.s.setup, name) }

// Spec is a run of argv that asks for nothing special.
func (t *T) Spec(argv ...string) sandbox.RunSpec {
	evidenceMu.Lock()
	t.s.attempt++
	n := t.s.attempt
	evidenceMu.Unlock()
	limits := wire.DefaultLimits()
	return sandbox.RunSpec{
		Argv: argv, StartTimeout: t.s.options.Bounds.Start, Timeout: t.s.options.Bounds.Run, Limits: limits,
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Image: t.s.image,
		Label: wire.Label{Worker: t.s.setup.Worker, Job: t.job(), Scanner: t.s.target.Scanner, Attempt: n},
	}
}

// job is the job of the spec's runs.
func (t *T) job() string { return strings.ToLower(t.spec.ID) + "-" + t.s.token }

// HostileSpec is a run of the hostile program.
func (t *T) HostileSpec(verb string, args ...string) sandbox.RunSpec {
	return t.Spec(append([]string{t.Program("hostile"), verb}, args...)...)
}

// Run runs spec and keeps evidence of it.
func (t *T) Run(spec sandbox.RunSpec) (sandbox.RunOutput, error) { return t.RunCtx(t.ctx, spec) }

// RunCtx is Run under another context.
func (t *T) RunCtx(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	started := time.Now()
	out, err := t.s.runtime.Run(ctx, spec)
	t.keep(spec, out, err, time.Since(started))
	return out, err
}

// Exited runs spec, which must come to an answer with an exit status.
func (t *T) Exited(spec sandbox.RunSpec) sandbox.RunOutput {
	out, err := t.Run(spec)
	t.exited(spec, out, err)
	return out
}

func (t *T) exited(spec sandbox.RunSpec, out sandbox.RunOutput, err error) {
	t.Expect(err).NotTo(gomega.HaveOccurred(), "the run %v", spec.Argv)
	t.Expect(out.Status).NotTo(gomega.BeNil(), "the scanner has no exit status: it ended as %s %s, with %q on stderr", out.Result.Ending, out.Result.Signal, clip(out.StderrTail, 300))
}

// Hostile makes one attempt and returns what came of it, as the attacker saw.
func (t *T) Hostile(verb string, args ...string) attempt.Report {
	return t.HostileRun(t.HostileSpec(verb, args...))
}

// HostileRun is Hostile with a spec of the caller's.
func (t *T) HostileRun(spec sandbox.RunSpec) attempt.Report {
	return t.attempted(t.Exited(spec))
}

// attempted is what the attacker has printed.
func (t *T) attempted(out sandbox.RunOutput) attempt.Report {
	r, err := attempt.Parse(out.Stdout)
	t.Expect(err).NotTo(gomega.HaveOccurred(), "status %d, stderr %q", *out.Status, clip(out.StderrTail, 500))
	return r
}

func (t *T) keep(spec sandbox.RunSpec, out sandbox.RunOutput, err error, took time.Duration) {
	e := report.Evidence{
		Run: spec.Label.String(), Argv: clipAll(spec.Argv), Seconds: took.Seconds(),
		Stdout: redact(clip(string(out.Stdout), 3000)), Stderr: redact(clip(out.StderrTail, 2000)),
	}
	if err != nil {
		e.Error = redact(err.Error())
		var se *sandbox.Error
		if errors.As(err, &se) {
			e.Stderr = redact(clip(se.Stderr, 2000))
		}
	} else if b, jerr := json.Marshal(out.Result); jerr == nil {
		e.Result = redact(clip(string(b), 4000))
	}
	t.addEvidence(e)
}

func (t *T) addEvidence(e report.Evidence) {
	evidenceMu.Lock()
	defer evidenceMu.Unlock()
	if len(t.evidence) >= evidenceCap {
		t.evidence = slices.Delete(t.evidence, 1, 2) // the first and the last ones tell most
	}
	t.evidence = append(t.evidence, e)
}

func clipAll(argv []string) []string {
	out := make([]string, 0, min(len(argv), 21))
	for i, a := range argv {
		if i == 20 {
			return append(out, "… "+strconv.Itoa(len(argv)-20)+" more")
		}
		out = append(out, clip(a, 200))
	}
	return out
}

var signedURL = regexp.MustCompile(`https?://[^\s"'\\]+\?[^\s"'\\]+`)

// redact takes the query off every URL: it may be a signature.
func redact(s string) string {
	return signedURL.ReplaceAllStringFunc(s, func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			return "[a URL that does not parse]"
		}
		u.RawQuery = "redacted"
		return u.String()
	})
}

// inline is an entry with its content in the manifest.
func inline(path string, kind wire.EntryKind, content []byte) wire.Entry {
	return wire.Entry{Path: wire.MustRelPath(path), Kind: kind, Inline: content, Size: int64(len(content))}
}

// artifactEntry is the entry that stands for the bundle's artifact.
func artifactEntry(path string, kind wire.EntryKind, size int) wire.Entry {
	return wire.Entry{Path: wire.MustRelPath(path), Kind: kind, URL: wire.ArtifactURL, Size: int64(size)}
}

// blob is an artifact in memory. claimed is the size it says it has.
type blob struct {
	content []byte
	claimed int64
}

func newBlob(content []byte) blob { return blob{content, int64(len(content))} }

func (b blob) Key() string { return "" }
func (b blob) Size() int64 { return b.claimed }
func (b blob) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.content)), nil
}
