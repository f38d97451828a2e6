package s3

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// The defaults of a Config.
const (
	DefaultRegion  = "us-east-1"
	DefaultTimeout = 30 * time.Second
	DefaultMinRate = 1 << 20
	DefaultTries   = 3
)

// Config says where a bucket is and how it is used. It prints without its
// credentials.
type Config struct {
	// Endpoint is the server, "https://host" or "http://host:port".
	Endpoint string
	// Region is what requests are signed for; empty means DefaultRegion.
	Region string
	Bucket string
	// AccessKey, SecretKey and, for temporary credentials, SessionToken sign
	// the requests.
	AccessKey, SecretKey, SessionToken string
	// PathStyle puts the bucket into the path instead of the host's name, as
	// most servers that are not Amazon's want it.
	PathStyle bool
	// CAFile holds certificates in PEM that are trusted besides the system's.
	CAFile string
	// Timeout bounds every call, retries and all, that moves no bytes; 0 means
	// DefaultTimeout. A server that does not begin to answer is given up
	// earlier, so that there is time to ask again.
	Timeout time.Duration
	// MinRate is how many bytes a second a transfer moves at least: it has
	// its size's share of time besides Timeout. 0 means DefaultMinRate.
	MinRate int64
	// Tries is how often a call is made at most; 0 means DefaultTries.
	Tries int
}

// String says where the bucket is, and nothing secret.
func (c Config) String() string {
	return fmt.Sprintf("s3 bucket %q at %s", c.Bucket, redacted(c.Endpoint))
}

// GoString keeps the credentials out of %#v.
func (c Config) GoString() string { return c.String() }

// MarshalText keeps the credentials out of logs and encoders.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// redacted is an endpoint without a password that does not belong there.
func redacted(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "an endpoint that does not parse"
	}
	return u.Scheme + "://" + u.Host
}

func (c *Config) complete() {
	if c.Region == "" {
		c.Region = DefaultRegion
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MinRate <= 0 {
		c.MinRate = DefaultMinRate
	}
	if c.Tries <= 0 {
		c.Tries = DefaultTries
	}
}

// endpoint is the parsed Endpoint.
func (c Config) endpoint() (*url.URL, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, errors.New("the endpoint does not parse as a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("endpoint %q, want https://host or http://host:port", redacted(c.Endpoint))
	case u.User != nil:
		return nil, fmt.Errorf("endpoint %s has user information; use access_key and secret_key", redacted(c.Endpoint))
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("endpoint %s has more than a host; the bucket is configured by itself", redacted(c.Endpoint))
	}
	return u, nil
}

// check refuses what no server could be asked with.
func (c Config) check() error {
	switch {
	case c.Bucket == "":
		return errors.New("no bucket is configured")
	case c.AccessKey == "" || c.SecretKey == "":
		return errors.New("access_key and secret_key are both needed")
	}
	return nil
}

// transport reads no proxy from the environment and waits for nothing without
// a bound.
func (c Config) transport() (*http.Transport, error) {
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	part := c.Timeout / time.Duration(min(c.Tries, 3))
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: min(part, 10*time.Second), KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   min(part, 10*time.Second),
		ResponseHeaderTimeout: part,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   16,
		// A body that was compressed on the way would have no length.
		DisableCompression: true,
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
	}, nil
}

func (c Config) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading ca_file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file %s holds no certificate in PEM", c.CAFile)
	}
	return roots, nil
}
