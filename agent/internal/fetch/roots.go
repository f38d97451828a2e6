package fetch

import (
	"crypto/x509"
	"os"
	"sync"
)

// roomRoots are where the authorities of a room stand, as the distributions
// have them. A room that brings its own, for a private storage, means them.
var roomRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
	"/etc/ssl/ca-bundle.pem",                            // OpenSUSE
	"/etc/pki/tls/cacert.pem",                           // OpenELEC
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7 and later
	"/etc/ssl/cert.pem",                                 // Alpine
}

// roomRootsCap bounds a file of authorities, in bytes.
const roomRootsCap = 4 << 20

// trusted returns the authorities of the room, or those compiled in where it
// has none. The standard library's own look-up is not used, because two
// variables of the environment redirect it. It happens on the first https
// request and not before: a run without one must not pay for it.
var trusted = sync.OnceValues(func() (*x509.CertPool, error) {
	for _, name := range roomRoots {
		if pool := poolOf(name); pool != nil {
			return pool, nil
		}
	}
	return compiledIn()
})

func poolOf(name string) *x509.CertPool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > roomRootsCap {
		return nil
	}
	pem, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil
	}
	return pool
}
