package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
)

func containers() Containers {
	return Containers{
		MinVersion: func(string) string { return "4.3" },
		Version: func(_, printed string) (string, bool) {
			version := strings.TrimSpace(printed)
			return version, version != "4.2"
		},
		Pinned: func(image string) (bool, error) {
			if strings.HasPrefix(image, "-") {
				return false, fmt.Errorf("image %q begins with a hyphen", image)
			}
			return strings.Contains(image, "@"), nil
		},
		LosesNetworks: func() bool { return false },
	}
}

const (
	podmanInfo = `{"host":{"cgroupVersion":"v2","cgroupControllers":["cpu","memory","pids"],"security":{"rootless":true}}}`
	rootful    = `{"host":{"cgroupVersion":"v1","cgroupControllers":["cpu","memory","pids"],"security":{"rootless":false}}}`
	dockerInfo = `{"ServerVersion":"28.0.1","SecurityOptions":["name=seccomp,profile=builtin","name=userns"],"MemoryLimit":true,"PidsLimit":true}`
)

var ruleset, _ = firewall.Ruleset(storageZone)

// answers plays the programs: what is asked begins with a key, whose value is
// what is printed, or said before it fails.
func answers(other map[string]string) func(context.Context, string, ...string) (string, string, error) {
	all := map[string]string{
		"podman --version": "4.9", "podman info": podmanInfo, "podman image inspect": "sha256:1",
		"docker --version": "28.0", "docker info": dockerInfo, "docker image inspect": "sha256:1", "nft list table inet batlehub_sandbox": ruleset,
	}
	return func(_ context.Context, path string, args ...string) (string, string, error) {
		asked := filepath.Base(path) + " " + strings.Join(args, " ")
		for _, answers := range []map[string]string{other, all} {
			for key, answer := range answers {
				if !strings.HasPrefix(asked, key) {
					continue
				}
				if said, failed := strings.CutPrefix(answer, "FAIL "); failed {
					return "", "first\n" + said + "\n", errors.New("exit status 1")
				}
				return answer, "", nil
			}
		}
		return "", "", fmt.Errorf("nobody expected %q", asked)
	}
}

func TestEachThingThatAnEngineLacksIsNamedWithItsFix(t *testing.T) {
	says := func(key, answer string) func(*testing.T, *Host) {
		return func(_ *testing.T, h *Host) { h.Run = answers(map[string]string{key: answer}) }
	}
	docker := func(h *Host) { h.Sandbox.OCI.Engine, h.Sandbox.OCI.Binary = "docker", "docker" }
	storage := func(h *Host) {
		h.EUID, h.Sandbox.Runtime, h.Sandbox.OCI.Transport = 0, "oci", "storage"
	}
	image := func(name string, also func(*Host)) func(*testing.T, *Host) {
		return func(_ *testing.T, h *Host) {
			h.Sandbox.Runtime, h.Images = "oci", []Image{{Scanner: "x", Name: name, Problem: "there is no image"}}
			also(h)
		}
	}
	same := func(*Host) {}
	absent := func(h *Host) { h.Run = answers(map[string]string{"podman image inspect": "FAIL no such image"}) }
	for _, c := range []struct {
		name, check string
		breakIt     func(*testing.T, *Host)
		outcome     Outcome
		detail, fix string
	}{
		{"no podman", "engine program", func(_ *testing.T, h *Host) {
			h.Look = func(string) (string, error) { return "", errors.New("not found") }
		}, Fail, `there is no program "podman"`, "apt-get install podman uidmap"},
		{"no docker", "engine program", func(_ *testing.T, h *Host) {
			docker(h)
			h.Look = func(string) (string, error) { return "", errors.New("not found") }
		}, Fail, `there is no program "docker"`, "apt-get install docker.io"},
		{"a podman that can't run", "engine program", says("podman --version", "FAIL Exec format error"), Fail, `"Exec format error"`, "binary"},
		{"an old podman", "engine program", says("podman --version", "4.2"), Fail, "is 4.2, which is older than 4.3", "install podman 4.3"},
		{"a podman of no version", "engine program", says("podman --version", ""), Caution, "names no version", ""},
		{"a podman that fails", "engine", says("podman info", "FAIL cannot re-exec process"), Fail, `"cannot re-exec process"`, "/usr/bin/podman info"},
		{"a podman that babbles", "engine", says("podman info", "yes"), Fail, "can't be read", "/usr/bin/podman info"},
		{"no daemon", "engine", func(_ *testing.T, h *Host) {
			docker(h)
			h.Run = answers(map[string]string{"docker info": `{"ServerErrors":["Cannot connect to the Docker daemon"]}`})
		}, Fail, "Cannot connect to the Docker daemon", "systemctl start docker"},
		{"a remapped docker", "privilege", func(_ *testing.T, h *Host) { docker(h) }, Caution, "is root on this host, the worker included; user ids are remapped", "rootless podman"},
		{"a plain docker", "privilege", func(_ *testing.T, h *Host) {
			docker(h)
			h.Run = answers(map[string]string{"docker info": `{"ServerVersion":"1","MemoryLimit":true,"PidsLimit":true}`})
		}, Caution, "containers have this host's user ids", "--userns-remap=default"},
		{"rootful podman", "privilege", says("podman info", rootful), Caution, "runs as root", "a user of its own"},
		{"rootless podman", "privilege", func(*testing.T, *Host) {}, Pass, "rootless", ""},
		{"rootless podman and storage", "privilege", func(_ *testing.T, h *Host) { h.Sandbox.Runtime, h.Sandbox.OCI.Transport = "oci", "storage" }, Fail, "runs without network are refused", `transport = "mount"`},
		{"rootless podman on cgroup v1", "limits", says("podman info", strings.Replace(podmanInfo, "v2", "v1", 1)), Caution, "memory, pids, cpu", "Delegate=cpu memory pids"},
		{"no memory controller", "limits", says("podman info", strings.Replace(podmanInfo, `"memory",`, "", 1)), Caution, "can be limited in memory", "Delegate"},
		{"a docker without limits", "limits", func(_ *testing.T, h *Host) {
			docker(h)
			h.Run = answers(map[string]string{"docker info": `{"ServerVersion":"1"}`})
		}, Caution, "can be limited in memory, pids", "controllers"},
		{"no user ids", "subuid", func(t *testing.T, h *Host) { put(t, filepath.Join(h.Etc, "subuid"), "other:1:65536\n") }, Fail, "has 0 ids for worker, and each container takes 65536", "usermod --add-subuids 1000000-1327679 worker"},
		{"too few user ids", "subuid", func(t *testing.T, h *Host) { put(t, filepath.Join(h.Etc, "subuid"), "worker:1:65535\n") }, Fail, "has 65535 ids", "usermod"},
		{"user ids for one", "subgid", func(t *testing.T, h *Host) { put(t, filepath.Join(h.Etc, "subgid"), "worker:1:65536\n") }, Caution, "enough for 1 containers", "max_concurrent"},
		{"no user ids for root", "subuid", says("podman info", rootful), Fail, "has 0 ids for containers", "echo containers:2147483647:2147483648 >> "},
		{"no file of user ids", "subuid", func(_ *testing.T, h *Host) { h.Etc = "/nonexistent" }, Fail, "has 0 ids", "usermod"},
		{"a scanner without an image", "image x", image("", same), Fail, "there is no image", "[scanners.x] image"},
		{"an image that may not be pulled", "image x", image("a@1", absent), Fail, `is not there, and pull = "never"`, "podman pull a@1"},
		{"an image that will be pulled", "image x", image("a@1", func(h *Host) { h.Sandbox.OCI.Pull = "if-absent"; absent(h) }), Caution, "the first run pulls it", "podman pull a@1"},
		{"an image by its tag", "image x", image("a:1", same), Caution, "by a tag", "digest"},
		{"an image by its digest", "image x", image("a@1", same), Pass, "a@1", ""},
		{"an image that is a flag", "image x", image("--privileged", same), Fail, "begins with a hyphen", "sha256"},
		{"no scanner", "images", func(_ *testing.T, h *Host) { h.Sandbox.Runtime = "oci" }, Skipped, "no scanner is configured", "[scanners.<name>]"},
		{"a firewall", "firewall", func(_ *testing.T, h *Host) {
			storage(h)
			h.Run = answers(map[string]string{"podman info": rootful})
		}, Pass, "holds runs to the storage", ""},
		{"no firewall", "firewall", func(_ *testing.T, h *Host) {
			storage(h)
			h.Run = answers(map[string]string{"podman info": rootful, "nft": "FAIL Error: No such file or directory\nlist table inet batlehub_sandbox\n                ^^^^^^^^"})
		}, Fail, `the table inet batlehub_sandbox is not there: "Error: No such file or directory"`, "sandboxctl network --apply"},
		{"a firewall of before the storage moved", "firewall", func(_ *testing.T, h *Host) {
			storage(h)
			h.Run = answers(map[string]string{"podman info": rootful, "nft": strings.ReplaceAll(ruleset, "9000", "9001")})
		}, Fail, "proto-dst 9000 accept", "sandboxctl network --apply"},
		{"a firewall of another pool", "firewall", func(_ *testing.T, h *Host) {
			storage(h)
			h.Run = answers(map[string]string{"podman info": rootful, "nft": strings.ReplaceAll(ruleset, "10.213", "10.214")})
		}, Fail, "it lacks \"ip daddr 10.213.0.0/16", "sandboxctl network --apply"},
		{"networks that podman loses", "mount propagation", func(_ *testing.T, h *Host) {
			storage(h)
			h.OCI.LosesNetworks = func() bool { return true }
			h.Run = answers(map[string]string{"podman info": rootful})
		}, Fail, "leaves a network behind", "mount --make-rshared /"},
		{"networks that podman loses and nobody needs", "mount propagation", func(_ *testing.T, h *Host) {
			h.Sandbox.Runtime = "oci"
			h.OCI.LosesNetworks = func() bool { return true }
			h.Run = answers(map[string]string{"podman info": rootful})
		}, Caution, "leaves a network behind", "mount --make-rshared /"},
		{"a firewall that can't be looked at", "firewall", func(_ *testing.T, h *Host) {
			storage(h)
			h.EUID, h.Run = 1000, answers(map[string]string{"podman info": rootful})
		}, Skipped, "only root", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := host(t)
			c.breakIt(t, &h)
			got := find(t, Examine(t.Context(), h), "oci", c.check)
			if got.Outcome != c.outcome || !strings.Contains(got.Detail, c.detail) {
				t.Errorf("%+v, want %s %q", got, c.outcome, c.detail)
			}
			if c.fix != "" && !strings.Contains(strings.Join(got.Fixes, "|"), c.fix) {
				t.Errorf("fixes %q, want %q", got.Fixes, c.fix)
			}
			if got.Outcome == Fail && len(got.Fixes) == 0 {
				t.Error("a FAIL without a fix")
			}
		})
	}
}
