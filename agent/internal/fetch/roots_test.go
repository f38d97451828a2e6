package fetch

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

func TestTheCompiledInRootsParse(t *testing.T) {
	pool, err := compiledIn()
	if err != nil {
		t.Fatal(err)
	}
	if pool.Equal(x509.NewCertPool()) {
		t.Error("there are none")
	}
}

func TestARoomsOwnRootsAreTaken(t *testing.T) {
	name := filepath.Join(t.TempDir(), "roots.pem")
	if pool := poolOf(name); pool != nil {
		t.Error("a missing file gave roots")
	}
	if err := os.WriteFile(name, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pool := poolOf(name); pool != nil {
		t.Error("a file without a certificate gave roots")
	}
	if err := os.Truncate(name, roomRootsCap+1); err != nil {
		t.Fatal(err)
	}
	if pool := poolOf(name); pool != nil {
		t.Error("a file that is too large gave roots")
	}
}
