package oci

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	signedGet = "https://s3.example/b/sandbox/w/j/scanner/1/manifest.json?X-Amz-Signature=aa"
	signedPut = "https://s3.example/b/sandbox/w/j/scanner/1/out.tar?X-Amz-Signature=bb"
	digest    = "registry.example/scanner@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

func argvSpec() sandbox.RunSpec {
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Argv: []string{"scan"}, Limits: wire.DefaultLimits(),
		Label: wire.Label{Worker: "w1", Job: "j7", Scanner: "gitleaks", Attempt: 2},
	}
}

func argvConfig(engine, transport string) Config {
	return Config{Engine: engine, Binary: "/usr/bin/" + engine, Transport: transport, Pull: PullNever}
}

func argvInstance(transport string, network bool) Instance {
	in := Instance{
		Image: digest, In: "file:///bundle/manifest.json", Out: "file:///bundle/out.tar", Mount: "/run/sbx/work",
		Network: noNetwork, Deadline: time.Unix(1800000000, 0), Lifetime: 270*time.Second + 500*time.Millisecond,
	}
	if transport == Storage {
		in.In, in.Out, in.Mount = signedGet, signedPut, ""
		in.Network, in.Own, in.Hosts, in.HostsFile = "batlehub-sbx-j7-gitleaks-2", true, []string{"s3.example:10.1.2.3"}, "/run/sbx/hosts"
	}
	if network {
		in.Network, in.Own, in.Hosts, in.HostsFile = "", false, nil, "/run/sbx/hosts"
	}
	return in
}

// lines puts each flag and its value on one line.
func lines(argv []string) string {
	var b strings.Builder
	for i, a := range argv {
		switch {
		case i == 0:
		case strings.HasPrefix(a, "-") || !strings.HasPrefix(argv[i-1], "-") || strings.Contains(argv[i-1], "=") || isSwitch(argv[i-1]):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(a)
	}
	return b.String() + "\n"
}

func isSwitch(a string) bool {
	return slices.Contains([]string{"--rm", "--read-only", "--unsetenv-all", "--no-healthcheck", "--no-hosts"}, a)
}

func TestTheCommandLineIsTheRFCsLineByLine(t *testing.T) {
	for _, engine := range []string{Podman, Docker} {
		for _, transport := range []string{Mount, Storage} {
			for _, network := range []bool{false, true} {
				name := engine + "-" + transport + map[bool]string{false: "-offline", true: "-online"}[network]
				t.Run(name, func(t *testing.T) {
					spec := argvSpec()
					spec.Network = network
					golden(t, name, lines(Argv(argvConfig(engine, transport), spec, argvInstance(transport, network))))
				})
			}
		}
	}
}

func TestARunWithNetworkInAPoolHasItsOwnNetworkAndAResolver(t *testing.T) {
	for _, engine := range []string{Podman, Docker} {
		spec, in := argvSpec(), argvInstance(Storage, true)
		spec.Network = true
		in.Network, in.Own, in.Hosts = "batlehub-sbx-j7-gitleaks-2", true, []string{"s3.example:10.1.2.3"}
		in.Resolvers = []string{"192.0.2.53"}
		golden(t, engine+"-storage-egress", lines(Argv(argvConfig(engine, Storage), spec, in)))
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever else changes: these stand, and those never do.
func TestNoCommandLineLacksAWall(t *testing.T) {
	for _, engine := range []string{Podman, Docker} {
		for _, transport := range []string{Mount, Storage} {
			text := lines(Argv(argvConfig(engine, transport), argvSpec(), argvInstance(transport, false)))
			for _, want := range []string{
				"--rm\n", "--read-only\n", "--cap-drop ALL\n", "--security-opt no-new-privileges\n", "--user 65532:65532\n", "--pull never\n",
				"--memory 2048m\n", "--memory-swap 2048m\n", "--pids-limit 256\n", "--cpus 1\n", "-e HOME=/work\n", "-w /work\n",
				"-e PATH=/usr/local/bin:/usr/bin:/bin\n", "--tmpfs /work:rw,nosuid,nodev,size=512m", "--entrypoint batlehub-sandbox\n",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("%s, %s: no %q in\n%s", engine, transport, want, text)
				}
			}
			if (engine == Podman) != strings.Contains(text, "--env-host=false\n") || (transport == Mount) != strings.Contains(text, "--network none\n") {
				t.Errorf("%s, %s: got\n%s", engine, transport, text)
			}
			for _, never := range []string{"-i\n", "-t\n", "-it\n", "--interactive", "--tty", "sh\n", "-c\n", "--privileged", "--cap-add"} {
				if strings.Contains(text, "\n"+never) {
					t.Errorf("%s, %s: %q in\n%s", engine, transport, never, text)
				}
			}
		}
	}
}

func TestFlagsThatOnlyPodmanKnowsAreAbsentOnDocker(t *testing.T) {
	text := lines(Argv(argvConfig(Docker, Mount), argvSpec(), argvInstance(Mount, false)))
	for _, flag := range []string{
		"--userns", "--env-host", "--unsetenv-all", "--read-only-tmpfs", "--image-volume", "--timeout", "--systemd", "--sdnotify",
		"--passwd", "--http-proxy", "--no-hosts", "U\n", "nosuid,nodev,U",
	} {
		if strings.Contains(text, flag) {
			t.Errorf("docker gets %q in\n%s", flag, text)
		}
	}
}

func TestExtraArgumentsStandLastBeforeTheImage(t *testing.T) {
	c := argvConfig(Podman, Mount)
	c.ExtraArgs = []string{"--runtime=runsc", "--cgroup-parent", "/sandboxes"}
	argv := Argv(c, argvSpec(), argvInstance(Mount, false))
	want := []string{
		"--runtime=runsc", "--cgroup-parent", "/sandboxes", digest,
		"--in", "file:///bundle/manifest.json", "--out", "file:///bundle/out.tar",
	}
	if got := argv[len(argv)-len(want):]; !slices.Equal(got, want) {
		t.Errorf("it ends in %q, want %q", got, want)
	}
}

func TestAnImageThatIsNoneHasNoCommandLine(t *testing.T) {
	for _, image := range []string{"", "-v=/:/host", "--privileged", "a b", "Upper", "x:y:z", "oci:/etc", "docker-archive:/etc/passwd", "a\x00b", "../x"} {
		in := argvInstance(Mount, false)
		in.Image = image
		if argv := Argv(argvConfig(Podman, Mount), argvSpec(), in); argv != nil {
			t.Errorf("%q: got %q", image, argv)
		}
	}
}

func TestImagesByDigestAreKnownAsPinned(t *testing.T) {
	id := strings.Repeat("ab", 32)
	for image, want := range map[string]bool{
		digest: true, "sha256:" + id: true, id: true,
		"scanner": false, "scanner:1": false, "localhost/scanner:1": false, "registry.example:5000/a/b:c": false,
	} {
		if pinned, err := ParseImage(image); err != nil || pinned != want {
			t.Errorf("%s: got %t, %v, want %t", image, pinned, err, want)
		}
	}
}

func TestTheScannersImageComesBeforeTheRuntimes(t *testing.T) {
	for _, c := range []struct {
		own, fallback, want string
		code                sandbox.Code
	}{
		{"own:1", "fallback:1", "own:1", ""},
		{"", "fallback:1", "fallback:1", ""},
		{"", "", "", sandbox.CodeConfig},
		{"-bad", "fallback:1", "", sandbox.CodeConfig},
	} {
		got, fault := imageOf(c.own, c.fallback)
		if got != c.want || (fault == nil) != (c.code == "") || fault != nil && fault.Code != c.code {
			t.Errorf("%+v: got %q, %v", c, got, fault)
		}
	}
}

func TestAScannerThatMayHaveMoreProcessesGetsThem(t *testing.T) {
	spec := argvSpec()
	spec.Limits.Processes = 1000
	if !strings.Contains(lines(Argv(argvConfig(Docker, Mount), spec, argvInstance(Mount, false))), "--pids-limit 1000\n") {
		t.Error("the container has fewer")
	}
}

func TestAHostsFileHoldsTheContainerAndWhatItIsToldOf(t *testing.T) {
	got := string(hostsFile([]string{"s3.example:10.1.2.3", "s3.example:10.1.2.4"}))
	if want := "127.0.0.1 localhost sandbox\n10.1.2.3 s3.example\n10.1.2.4 s3.example\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
