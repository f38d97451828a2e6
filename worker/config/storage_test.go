package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestTheOnlyBackendIsTheDefault(t *testing.T) {
	c := load(t, s3Backend)
	if b, ok := c.BundleBackend(); !ok || b.Name != "s3" || c.Storage.Default != "s3" || b.Line != 1 {
		t.Errorf("%+v", c.Storage)
	}
}

// The registry's own file is read as it stands, in both of its forms.
func TestTheRegistrysWaysOfWritingStorageAreRead(t *testing.T) {
	single := load(t, ociTable+"[worker.sandbox.oci]\ntransport = \"storage\"\n[storage]\ntype = \"s3\"\nbucket = \"artifacts\"\nendpoint_url = \"http://s3:9000\"\nforce_path_style = true\nsomething_new = 1\n")
	if b, ok := single.BundleBackend(); !ok || b.Bucket != "artifacts" || b.Endpoint != "http://s3:9000" || !b.PathStyle || b.Line != 5 {
		t.Errorf("%+v", single.Storage)
	}
	several := load(t, "[storage]\ndefault = \"Primary\"\n[[storage.backends]]\nname = \"Primary\"\ntype = \"filesystem\"\npath = \"/srv\"\n"+
		"[[storage.backends]]\nname = \"s3\"\ntype = \"s3\"\nbucket = \"b\"\n[[storage.backends]]\nname = \"new\"\ntype = \"gcs\"\n")
	if len(several.Storage.Backends) != 3 || several.Storage.Backends["Primary"].Path != "/srv" || several.Storage.Backends["s3"].Line != 7 {
		t.Errorf("%+v", several.Storage)
	}
}

// What is the registry's business becomes ours when bundles go there.
func TestARegistrysBackendIsCheckedOnceItIsUsed(t *testing.T) {
	for text, want := range map[string]string{
		"[storage]\ntype = \"filesystem\"\npath = \"/srv\"\n":                         "'filesystem' cannot presign a URL",
		"[storage]\ntype = \"gcs\"\nbucket = \"b\"\n":                                 ":6: type \"gcs\" of backend 'default' is not known",
		"[[storage.backends]]\nname = \"a\"\ntype = \"s3\"\n":                         ":7: backend 'a' has no bucket",
		"[[storage.backends]]\nname = \"a\"\ntype = \"s3\"\nbucket = \"b\"\nregion=1": ":9: storage.backends.a.region is the number 1, want a string",
	} {
		_, err := Load(write(t, "config.toml", ociTable+"[worker.sandbox.oci]\ntransport = \"storage\"\n"+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestABackendMayBeCompletedByALaterLayer(t *testing.T) {
	base := write(t, "base.toml", "[storage]\ntype = \"s3\"\nbucket = \"b\"\n")
	over := write(t, "over.toml", "[storage.backends.default]\nendpoint = \"http://s3:9000\"\naccess_key_env = \"A\"\nsecret_key_env = \"S\"\n")
	c, err := Load(base, over)
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := c.BundleBackend(); !ok || b.Bucket != "b" || b.Endpoint != "http://s3:9000" || b.AccessKeyEnv != "A" {
		t.Errorf("%+v", c.Storage)
	}
}

// However a configuration is printed, a secret of it is not.
func TestASecretIsNeverPrinted(t *testing.T) {
	c := load(t, s3Backend)
	if b := c.Storage.Backends["s3"]; b.AccessKey.Reveal() != "ACCESSWORD" || b.SecretKey.Reveal() != "SECRETWORD" {
		t.Fatal("the secret is lost")
	}
	printed, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	secret := c.Storage.Backends["s3"].SecretKey
	for _, text := range []string{
		string(printed), fmt.Sprintf("%v %+v %#v", *c, *c, *c), fmt.Sprintf("%s %q %x %d", secret, secret, secret, secret), secret.String(),
	} {
		if strings.Contains(text, "SECRETWORD") || strings.Contains(text, "ACCESSWORD") || strings.Contains(text, fmt.Sprintf("%x", "SECRETWORD")) {
			t.Errorf("printed in %s", text)
		}
	}
	for _, text := range []string{
		"[storage.backends.s3]\nsecret_key = 31337\n", "[storage.backends.s3]\nsecret_key = [\"31337\"]\n", "[storage.backends.s3]\nsecret_key = \"31337\nx",
		"[storage.backends.s3]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://user:31337@host\"\n",
	} {
		if _, err := Load(write(t, "config.toml", text)); err == nil || strings.Contains(err.Error(), "31337") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAFlagLiesOverEveryFileAndIsBlamedByName(t *testing.T) {
	file := write(t, "config.toml", ociTable+"[worker.sandbox.oci]\nengine = \"docker\"\n[worker.sandbox.bwrap]\nbinary = \"b\"\n")
	c, err := LoadWith([]Override{{"--runtime", "worker.sandbox.runtime", "bwrap"}}, file)
	if err != nil || c.Worker.Sandbox.Runtime != "bwrap" || c.Worker.Sandbox.OCI.Engine != "docker" || len(c.Warnings) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, r := range []struct {
		flag, key string
		value     any
		want      string
	}{
		{"--runtime", "worker.sandbox.runtime", "bwarp", `--runtime: runtime "bwarp" is not known; did you mean "bwrap"? one of none, bwrap, oci, kubernetes, crun`},
		{"--engine", "worker.sandbox.oci.engine", "x", `--engine: engine "x" is not known; one of podman, docker`},
	} {
		if _, err := LoadWith([]Override{{r.flag, r.key, r.value}}, file); err == nil || err.Error() != r.want {
			t.Errorf("got  %v\nwant %s", err, r.want)
		}
	}
	small := write(t, "small.toml", "[worker.sandbox]\nmemory_limit_mb = 64\n")
	if _, err := LoadWith([]Override{{"--runtime", "worker.sandbox.runtime", "oci"}}, small); err == nil || !strings.HasPrefix(err.Error(), small+":2: max_extracted_mb is 512") {
		t.Errorf("a flag's runtime is not validated: %v", err)
	}
}
