package fetch

import (
	"crypto/x509"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// compiledIn parses the authorities that come with the agent: Mozilla's, as
// the Go project publishes them, since a scratch image has none.
func compiledIn() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("parsing a compiled-in root: %w", err)
		}
		if root.Constraint == nil {
			pool.AddCert(certificate)
		} else {
			pool.AddCertWithConstraint(certificate, root.Constraint)
		}
	}
	return pool, nil
}
