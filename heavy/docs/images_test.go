package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the Containerfiles promise can be read off them: the user, no shell
// form and so no shell, no base but scratch or a named one, the mount points and
// the agent. Whether the images hold it, heavy's tests and scripts/images.sh show.
func TestEveryContainerfileKeepsTheRulesOfARoom(t *testing.T) {
	for _, name := range containerfiles(t) {
		file := "Containerfile.sandbox-" + name
		if name == "agent" || name == "worker" {
			file = "Containerfile." + name
		}
		b, err := os.ReadFile(filepath.Join(root, "deploy/images", file))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, want := range []string{"\nUSER 65532:65532\n", "\nWORKDIR /work\n", "\nCOPY mountpoints/ /\n", "\nCOPY batlehub-sandbox"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no line %q", file, strings.TrimSpace(want))
			}
		}
		if regexp.MustCompile(`(?m)^(RUN|ADD|SHELL|VOLUME|HEALTHCHECK|ONBUILD) `).MatchString(text) {
			t.Errorf("%s runs or fetches something while it is built", file)
		}
		if m := regexp.MustCompile(`(?m)^ENTRYPOINT (.*)$`).FindStringSubmatch(text); m != nil && m[1] != "[]" {
			t.Errorf("%s has the entrypoint %s, which would be put before the agent's command line", file, m[1])
		}
		for _, m := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1) {
			if base := m[1]; base != "scratch" && !strings.HasPrefix(base, "${") {
				t.Errorf("%s is made from %s, want scratch or an argument without a default", file, base)
			}
		}
		if regexp.MustCompile(`(?m)^ARG BASE=`).MatchString(text) {
			t.Errorf("%s has a default base: a tag can be moved", file)
		}
		if _, err := os.Stat(filepath.Join(root, "deploy/images/allow", name+".txt")); err != nil {
			t.Errorf("nothing says what may be in the image of %s: %v", name, err)
		}
	}
}

// The worker takes one tree per scanner out of the scanner's image stage.
func TestTheWorkersContainerfileTakesEveryScannersTree(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "deploy/images/Containerfile.worker"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range containerfiles(t) {
		if name == "agent" || name == "worker" {
			continue
		}
		for _, want := range []string{
			"\nFROM ${PREFIX}" + name + ":${TAG} AS " + name + "\n",
			"\nCOPY --from=" + name + " / /opt/sandbox/" + name + "/\n",
		} {
			if !strings.Contains(string(b), want) {
				t.Errorf("Containerfile.worker has no line %q", strings.TrimSpace(want))
			}
		}
	}
	if !strings.Contains(string(b), "\nARG BATLEHUB_IMAGE\nENV BATLEHUB_IMAGE=${BATLEHUB_IMAGE}\n") {
		t.Error("Containerfile.worker does not hand BATLEHUB_IMAGE on")
	}
}

// The script builds what there is a Containerfile for.
func TestTheImagesScriptKnowsEveryContainerfile(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "scripts/images.sh"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^rooms="(.*)"$`).FindStringSubmatch(string(b))
	if m == nil {
		t.Fatal("scripts/images.sh has no list of rooms")
	}
	got := append(strings.Fields(m[1]), "agent", "worker")
	slices.Sort(got)
	if want := containerfiles(t); !slices.Equal(got, want) {
		t.Errorf("scripts/images.sh builds %q, there are Containerfiles for %q", got, want)
	}
}
