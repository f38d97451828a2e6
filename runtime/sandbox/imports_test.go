package sandbox_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/batleforc/batlehub-sandbox/"

// list runs go list, which is not there when a compiled test runs elsewhere.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("not run: there is no go command here")
	}
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// The port is data: it can be defined and tested without I/O.
func TestThePortImportsTheWireAndTheStandardLibraryOnly(t *testing.T) {
	imports := list(t, "-f", `{{join .Imports "\n"}}`, ".")
	if !slices.Contains(imports, module+"wire") {
		t.Fatalf("the imports are %q", imports)
	}
	for _, pkg := range imports {
		switch {
		case strings.Contains(pkg, ".") && pkg != module+"wire":
			t.Errorf("it imports %s", pkg)
		case slices.Contains([]string{"os", "os/exec", "net", "net/http", "syscall", "log", "log/slog", "unsafe"}, pkg):
			t.Errorf("it imports %s, which does I/O", pkg)
		}
	}
	for _, pkg := range list(t, "-deps", ".") {
		if strings.HasPrefix(pkg, module) && pkg != module+"wire" && pkg != module+"runtime/sandbox" {
			t.Errorf("it depends on %s", pkg)
		}
	}
}

// The extractor and its decompressors stand inside the walls; only the runtime
// without walls has them in the worker's process.
func TestExtractionReachesTheWorkersSideThroughNoneAlone(t *testing.T) {
	packages := list(t, module+"runtime/...")
	if len(packages) < 5 {
		t.Fatalf("the packages are %q", packages)
	}
	for _, pkg := range packages {
		uses := slices.ContainsFunc(list(t, "-deps", pkg), func(dep string) bool { return strings.HasPrefix(dep, module+"agent") })
		if want := pkg == module+"runtime/none"; uses != want {
			t.Errorf("%s depends on the agent: %t, want %t", pkg, uses, want)
		}
	}
}

// A runtime stands beside the others and knows none of them.
func TestNoRuntimeKnowsAnother(t *testing.T) {
	runtimes := []string{
		module + "runtime/none", module + "runtime/bwrap", module + "runtime/oci", module + "runtime/crun", module + "runtime/kubernetes",
	}
	for _, pkg := range runtimes {
		for _, dep := range list(t, "-deps", pkg) {
			if dep != pkg && slices.Contains(runtimes, dep) {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}

// The cluster's client library is in one runtime, whose worker can be built
// without it.
func TestTheClustersLibraryIsInOneRuntimeAlone(t *testing.T) {
	for _, pkg := range list(t, module+"runtime/...") {
		var found []string
		for _, dep := range list(t, "-deps", pkg) {
			if strings.HasPrefix(dep, "k8s.io/") {
				found = append(found, dep)
			}
		}
		if want := pkg == module+"runtime/kubernetes"; (len(found) > 0) != want {
			t.Errorf("%s depends on %d packages of it, the first of %v", pkg, len(found), found)
		}
		// Every kind of object that there is would come with these.
		for _, wide := range []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/kubernetes/scheme"} {
			if slices.Contains(found, wide) {
				t.Errorf("%s depends on %s", pkg, wide)
			}
		}
	}
}
