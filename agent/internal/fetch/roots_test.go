package fetch

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
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

// The chain is one that a public server has shown, without its root.
func TestAPublicServersChainEndsAtACompiledInRoot(t *testing.T) {
	rest, err := os.ReadFile(filepath.Join("testdata", "public-chain.pem"))
	if err != nil {
		t.Fatal(err)
	}
	var chain []*x509.Certificate
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, certificate)
	}
	roots, err := compiledIn()
	if err != nil {
		t.Fatal(err)
	}
	options := x509.VerifyOptions{
		DNSName: "www.google.com", Roots: roots, Intermediates: x509.NewCertPool(),
		CurrentTime: time.Date(2023, time.February, 28, 0, 0, 0, 0, time.UTC),
	}
	options.Intermediates.AddCert(chain[1])
	if _, err := chain[0].Verify(options); err != nil {
		t.Error(err)
	}
	other := options
	other.DNSName = "storage.example"
	if _, err := chain[0].Verify(other); err == nil {
		t.Error("it is good for another name too")
	}
	other = options
	other.Roots = x509.NewCertPool()
	var unknown x509.UnknownAuthorityError
	if _, err := chain[0].Verify(other); !errors.As(err, &unknown) {
		t.Errorf("without roots: %v", err)
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
