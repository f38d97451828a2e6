package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow is the part of a workflow that these tests look at.
type workflow struct {
	On   any
	Jobs map[string]job
}

type job struct {
	Uses     string
	Strategy struct{ Matrix map[string]any }
	Steps    []step
}

type step struct {
	Name, Uses, Run string
	If              string
	With            map[string]any
}

func readWorkflow(t *testing.T, name string) workflow {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, ".github/workflows", name))
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	if err := yaml.Unmarshal(b, &w); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return w
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflow found: %v", err)
	}
	all := map[string]workflow{}
	for _, f := range files {
		all[filepath.Base(f)] = readWorkflow(t, filepath.Base(f))
	}
	return all
}

// containerfiles are the images that deploy/images describes.
func containerfiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "deploy/images/Containerfile.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Containerfile found: %v", err)
	}
	var names []string
	for _, f := range files {
		name := strings.TrimPrefix(filepath.Base(f), "Containerfile.")
		names = append(names, strings.TrimPrefix(name, "sandbox-"))
	}
	slices.Sort(names)
	return names
}

// matrixImages is the matrix key "image" of a job.
func matrixImages(t *testing.T, j job) []string {
	t.Helper()
	var names []string
	list, _ := j.Strategy.Matrix["image"].([]any)
	for _, v := range list {
		names = append(names, v.(string))
	}
	slices.Sort(names)
	return names
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// Every image of deploy/images is built, attested and scanned, and no other.
func TestEveryImageIsBuiltAttestedAndScanned(t *testing.T) {
	images := containerfiles(t)
	build, scan := readWorkflow(t, "build.yaml"), readWorkflow(t, "image-scan.yaml")
	if got, want := matrixImages(t, build.Jobs["images"]), without(images, "worker"); !slices.Equal(got, want) {
		t.Errorf("build.yaml builds %q, want %q", got, want)
	}
	if got := matrixImages(t, scan.Jobs["scan"]); !slices.Equal(got, images) {
		t.Errorf("image-scan.yaml scans %q, want %q", got, images)
	}
	if build.Jobs["scan"].Uses != "./.github/workflows/image-scan.yaml" {
		t.Error("build.yaml does not have its images scanned")
	}
	for _, name := range []string{"images", "worker"} {
		attestsWhatItPushed(t, name, build.Jobs[name])
	}
	i := indexOf(build.Jobs["agent-binary"], func(s step) bool {
		return strings.HasPrefix(s.Uses, "actions/attest-build-provenance@") && strings.Contains(s.With["subject-path"].(string), "batlehub-sandbox-linux-")
	})
	if i < 0 {
		t.Error("build.yaml does not attest the agent's release artifact")
	}
}

func indexOf(j job, is func(step) bool) int { return slices.IndexFunc(j.Steps, is) }

func attestsWhatItPushed(t *testing.T, name string, j job) {
	t.Helper()
	pushed := indexOf(j, func(s step) bool {
		return strings.HasPrefix(s.Uses, "docker/build-push-action@") && s.With["push"] == true
	})
	attested := indexOf(j, func(s step) bool {
		digest, _ := s.With["subject-digest"].(string)
		return strings.HasPrefix(s.Uses, "actions/attest-build-provenance@") && digest == "${{ steps.push.outputs.digest }}"
	})
	if pushed < 0 || attested < pushed {
		t.Errorf("job %s: pushes in step %d and attests that digest in step %d", name, pushed, attested)
	}
}

// Both engines and both transports of oci are run.
func TestTheTestWorkflowRunsOciOnEveryEngineAndTransport(t *testing.T) {
	j := readWorkflow(t, "test.yaml").Jobs["oci"]
	for key, want := range map[string][]any{"engine": {"docker", "podman"}, "transport": {"mount", "storage"}} {
		got, _ := j.Strategy.Matrix[key].([]any)
		if !slices.Equal(got, want) {
			t.Errorf("the matrix has %s %v, want %v", key, got, want)
		}
	}
	i := indexOf(j, func(s step) bool {
		return strings.Contains(s.Run, "./task conformance RUNTIME=oci ENGINE=${{ matrix.engine }} TRANSPORT=${{ matrix.transport }}")
	})
	if i < 0 {
		t.Error("no step runs the suite with the matrix' engine and transport")
	}
}

var (
	taskPattern   = regexp.MustCompile(`\./task ([^\n|&;]+)`)
	scriptPattern = regexp.MustCompile(`\b(scripts/[a-z0-9-]+\.sh)\b`)
	targetPattern = regexp.MustCompile(`^[a-z][a-z:]*$`)
	pinPattern    = regexp.MustCompile(`^[a-zA-Z0-9-]+/[a-zA-Z0-9/._-]+@[0-9a-f]{40}$`)
)

func TestWhatAWorkflowCallsExists(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "Taskfile.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var taskfile struct{ Tasks map[string]any }
	if err := yaml.Unmarshal(b, &taskfile); err != nil {
		t.Fatal(err)
	}
	var tasks, scripts int
	for name, w := range workflows(t) {
		for _, j := range w.Jobs {
			for _, s := range j.Steps {
				for _, m := range taskPattern.FindAllStringSubmatch(s.Run, -1) {
					for _, word := range strings.Fields(m[1]) {
						if !targetPattern.MatchString(word) {
							continue
						}
						tasks++
						if _, there := taskfile.Tasks[word]; !there {
							t.Errorf("%s runs ./task %s, which there is not", name, word)
						}
					}
				}
				for _, m := range scriptPattern.FindAllStringSubmatch(s.Run, -1) {
					scripts++
					if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
						t.Errorf("%s runs %s, which there is not", name, m[1])
					}
				}
			}
		}
	}
	if tasks == 0 || scripts == 0 {
		t.Errorf("found %d tasks and %d scripts in the workflows", tasks, scripts)
	}
}

// An action is code that runs with this repository's token: a tag can be moved.
func TestEveryActionIsNamedByItsCommit(t *testing.T) {
	for name, w := range workflows(t) {
		for _, j := range w.Jobs {
			for _, s := range j.Steps {
				if s.Uses != "" && !strings.HasPrefix(s.Uses, "./") && !pinPattern.MatchString(s.Uses) {
					t.Errorf("%s uses %s, want a commit", name, s.Uses)
				}
			}
		}
	}
}

func TestEveryFuzzTargetIsFuzzedAtNight(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "fuzz/fuzz_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var want []any
	for _, m := range regexp.MustCompile(`(?m)^func (Fuzz[A-Za-z]+)\(`).FindAllSubmatch(b, -1) {
		want = append(want, string(m[1]))
	}
	got, _ := readWorkflow(t, "fuzz.yaml").Jobs["fuzz"].Strategy.Matrix["target"].([]any)
	if !slices.Equal(got, want) {
		t.Errorf("fuzz.yaml fuzzes %v, want %v", got, want)
	}
}
