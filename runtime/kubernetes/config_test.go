package kubernetes

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestAConfigurationThatNoPodCouldBeMadeFromIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no server":             {func(c *Config) { c.API = nil }, "there is no API server"},
		"no storage":            {func(c *Config) { c.Hop = nil }, "pods need a storage backend"},
		"no namespace":          {func(c *Config) { c.Namespace = "" }, "there is no namespace"},
		"a namespace":           {func(c *Config) { c.Namespace = "a/b" }, `namespace "a/b"`},
		"a service account":     {func(c *Config) { c.ServiceAccount = "A" }, `service account "A"`},
		"a runtime class":       {func(c *Config) { c.RuntimeClass = "a b" }, `runtime class "a b"`},
		"a priority class":      {func(c *Config) { c.PriorityClass = "-" }, `priority class "-"`},
		"a pull secret":         {func(c *Config) { c.ImagePullSecrets = []string{"a", ""} }, "an image pull secret has no name"},
		"another pull secret":   {func(c *Config) { c.ImagePullSecrets = []string{"../x"} }, `pull secret ../x "../x"`},
		"an image":              {func(c *Config) { c.Image = "-v /:/host" }, "is not an image's name"},
		"a canary that is none": {func(c *Config) { c.Canaries = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:80")} }, "127.0.0.1"},
	} {
		config := podConfig()
		c.change(&config)
		r, err := New(config)
		if sandbox.KindOf(err) != sandbox.Refused || sandbox.CodeOf(err) != sandbox.CodeConfig || r != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnImageIsNamedAndPinnedByItsDigest(t *testing.T) {
	for image, want := range map[string]bool{digest: true, "registry.example/scanner:1.2": false, "scanner": false} {
		if pinned, err := ParseImage(image); err != nil || pinned != want {
			t.Errorf("%s: pinned %t, %v", image, pinned, err)
		}
	}
	id := strings.Repeat("ab", 32)
	for _, image := range []string{"", "-x", "UPPER", "a b", "https://registry.example/x", id, "sha256:" + id} {
		if _, err := ParseImage(image); err == nil {
			t.Errorf("%q is an image", image)
		}
	}
}

func TestARunWithoutAnImageIsRefused(t *testing.T) {
	b := newBed(t)
	b.config.Image = ""
	spec := b.spec()
	b.fails(spec, sandbox.Refused, sandbox.CodeConfig, "no image is configured", "[worker.sandbox.kubernetes] image")
	spec.Image = "a b"
	b.fails(spec, sandbox.Refused, sandbox.CodeConfig, "is not an image's name")
	if len(b.server.requests) > 0 {
		t.Errorf("the server was asked to %q", b.server.requests)
	}
}

func TestNoAssertionLacksAHint(t *testing.T) {
	for _, id := range wire.Assertions {
		if hint := Hint(id); hint == "" || strings.Contains(hint, "\n") {
			t.Errorf("%s: %q", id, hint)
		}
	}
	if len(hints) != len(wire.Assertions) {
		t.Errorf("%d hints for %d assertions", len(hints), len(wire.Assertions))
	}
}
