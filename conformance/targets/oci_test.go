package targets_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/conformance/targets"
)

// oci is a target over an engine that answers, or the test is skipped.
func oci(t *testing.T, b *targets.Builder, o targets.OCIOptions) *conformance.Target {
	t.Helper()
	if os.Geteuid() != 0 && o.Engine == "docker" {
		t.Skip("not run: docker's run directories need root")
	}
	target, closing, err := targets.OCI(t.Context(), b, o)
	if err != nil {
		t.Skip("not run: " + err.Error())
	}
	t.Cleanup(func() {
		if err := closing(); err != nil {
			t.Error(err)
		}
	})
	return target
}

func TestAnEngineKeepsWhatTheSuiteLooksAtFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: asked to be short")
	}
	b := builder(t)
	for _, engine := range []string{"podman", "docker"} {
		t.Run(engine, func(t *testing.T) {
			if os.Getenv("BATLEHUB_TEST_"+strings.ToUpper(engine)) != "1" {
				t.Skip(`not run: no engine; eval "$(scripts/engines.sh env)" after scripts/engines.sh up`)
			}
			o := options(t, b, "C01", "C38", "W01", "W110", "O06")
			o.Bounds = conformance.DefaultBounds()
			o.Bounds.Start *= 6
			o.Bounds.Settle *= 6
			r := conformance.Run(t, *oci(t, b, targets.OCIOptions{Engine: engine, Transport: "mount"}), o)
			if r.Counts[report.Pass] != 5 {
				t.Errorf("the counts are %v", r.Counts)
			}
		})
	}
}

// namesItsMutants fails for a mutant that no spec is to kill, or that is there
// twice, and for a target with too few.
func namesItsMutants(t *testing.T, target conformance.Target) {
	t.Helper()
	names := map[string]bool{}
	for _, m := range target.Mutants {
		if _, ok := conformance.ByID(m.Killer); !ok || names[m.Name] {
			t.Errorf("%s: %q names %q, or is there twice", target.Name, m.Name, m.Killer)
		}
		names[m.Name] = true
	}
	if len(target.Mutants) < 20 {
		t.Errorf("%s has %d mutants", target.Name, len(target.Mutants))
	}
}

func TestEveryPairNamesItsMutantsAndTheirKillers(t *testing.T) {
	for _, pair := range targets.OCIMutants(builder(t)) {
		namesItsMutants(t, pair)
	}
}

func TestAnEngineThatIsNotThereIsSaidSo(t *testing.T) {
	for _, o := range []targets.OCIOptions{
		{Engine: "podman", Transport: "mount", Binary: "no-such-engine"},
		{Engine: "docker", Transport: "mount", Binary: "false"},
	} {
		_, _, err := targets.OCI(t.Context(), builder(t), o)
		if err == nil || !strings.Contains(err.Error(), o.Engine+" does not answer") {
			t.Errorf("%v: %v", o, err)
		}
	}
}

func TestAServerThatIsNotThereIsSaidSo(t *testing.T) {
	for kind, want := range map[string]string{"minio": "scripts/tool.sh minio", "garage": `"garage" is no server`} {
		if err := targets.TryS3(context.Background(), kind, "no-such-server"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
