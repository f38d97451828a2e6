package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// onCluster is a host whose configured runtime is kubernetes.
func onCluster(t *testing.T, images ...Image) Host {
	t.Helper()
	h := host(t)
	h.Sandbox.Runtime, h.Images = "kubernetes", images
	h.Cluster = Cluster{
		Examine: func(context.Context) []Check { return []Check{{Name: "API server", Outcome: Pass}} },
		Pinned: func(image string) (bool, error) {
			if image == "-x" {
				return false, errors.New("it begins with a hyphen")
			}
			return strings.Contains(image, "@"), nil
		},
	}
	return h
}

func TestOnlyTheConfiguredClusterIsAsked(t *testing.T) {
	h := onCluster(t)
	if c := find(t, Examine(t.Context(), h), "kubernetes", "API server"); c.Outcome != Pass {
		t.Errorf("%+v", c)
	}
	h.Sandbox.Runtime = "bwrap"
	h.Cluster.Examine = func(context.Context) []Check { t.Error("it was asked"); return nil }
	if c := find(t, Examine(t.Context(), h), "kubernetes", "cluster"); c.Outcome != Skipped || !strings.Contains(c.Detail, "not the configured one") {
		t.Errorf("%+v", c)
	}
	h.Sandbox.Runtime, h.Cluster = "kubernetes", Cluster{}
	if c := find(t, Examine(t.Context(), h), "kubernetes", "cluster"); c.Outcome != Skipped || !strings.Contains(c.Detail, "not in this build") {
		t.Errorf("%+v", c)
	}
}

// What an engine's networks need is nothing to a cluster.
func TestAClustersBundlesNeedNoFirewallOfThisHosts(t *testing.T) {
	for _, c := range Examine(t.Context(), onCluster(t)) {
		if c.Runtime == "oci" && c.Name == "firewall" {
			t.Errorf("%+v", c)
		}
	}
}

func TestImagesOfPodsAreLookedAtByTheirNames(t *testing.T) {
	checks := Examine(t.Context(), onCluster(t,
		Image{Scanner: "a", Name: "r/a@sha256:x"}, Image{Scanner: "b", Name: "r/b:1"}, Image{Scanner: "c", Name: "-x"}, Image{Scanner: "d", Problem: "there is none"},
	))
	for name, want := range map[string]Outcome{"image a": Pass, "image b": Caution, "image c": Fail, "image d": Fail} {
		c := find(t, checks, "kubernetes", name)
		if c.Outcome != want || (want == Pass) != (len(c.Fixes) == 0) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := find(t, Examine(t.Context(), onCluster(t)), "kubernetes", "images"); c.Outcome != Skipped {
		t.Errorf("%+v", c)
	}
}
