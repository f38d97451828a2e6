package testkit

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
)

// S3 is a real S3 server on an address of this host, with one bucket in which
// nothing may be left by the end of the test.
func S3(t testing.TB, host netip.Addr) (*s3.Backend, netip.AddrPort) {
	t.Helper()
	out, err := exec.Command("sh", "../../scripts/tool.sh", "versitygw").Output()
	if err != nil {
		t.Skipf("not run: there is no versitygw here: %v", err)
	}
	// The address of a listener that is closed again is free.
	free, err := net.Listen("tcp", netip.AddrPortFrom(host, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	dir := Dir(t)
	if err := os.Mkdir(filepath.Join(dir, "bundles"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(strings.TrimSpace(string(out)), "--port", address, "posix", dir)
	cmd.Env = []string{"ROOT_ACCESS_KEY=key", "ROOT_SECRET_KEY=secret-of-no-value", "HOME=" + dir}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	backend, err := s3.New(s3.Config{
		Endpoint: "http://" + address, Bucket: "bundles", AccessKey: "key", SecretKey: "secret-of-no-value", PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for o, err := range backend.List(context.Background(), "") {
			t.Errorf("a key is left: %s, %v", o.Key, err)
		}
		_ = backend.Close()
	})
	up := func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	if !Eventually(20*time.Second, up) {
		t.Fatal("the server did not come up")
	}
	return backend, netip.MustParseAddrPort(address)
}
