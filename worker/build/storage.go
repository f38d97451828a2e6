package build

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/memory"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/router"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// hop makes what bundles travel through: the leaf is taken from the router
// once, here, and the router is asked for cached artifacts alone.
func (o Options) hop(runtime string) (*bundle.Hop, error) {
	backends, err := o.backends()
	if err != nil {
		return nil, err
	}
	r, err := router.New(router.Config{Backends: backends, Default: o.Bundles.Name, References: router.NewTable()})
	if err != nil {
		return nil, &config.Error{Message: fmt.Sprintf("[storage]: %v", err)}
	}
	leaf, err := r.Leaf(o.Bundles.Name)
	if err != nil {
		return nil, &config.Error{Message: fmt.Sprintf("[storage]: %v", err)}
	}
	return bundle.NewHop(bundle.HopConfig{
		Runtime: runtime, Leaf: leaf, Cache: r, Prefix: o.Sandbox.BundlePrefix, TTL: o.Sandbox.BundleTTL(),
	}), nil
}

// backends makes the backends that can sign URLs. The bundles' has to be one.
// The router is asked for signed URLs alone, so every other is stood for by one
// that can't sign: what is cached there is uploaded as if it were not cached
// (RFC 0022 §4.3), and nothing of it is opened or made here.
func (o Options) backends() (map[string]storage.Backend, error) {
	made := map[string]storage.Backend{}
	for name, c := range o.Storage.Backends {
		b, err := o.signing(c)
		switch {
		case err == nil:
			made[name] = b
		case name == o.Bundles.Name:
			return nil, &config.Error{File: c.File, Line: c.Line, Message: fmt.Sprintf("backend '%s': %v", name, err)}
		default:
			made[name] = memory.New()
		}
	}
	return made, nil
}

func (o Options) signing(c config.Backend) (storage.Backend, error) {
	if c.Type != "s3" {
		return nil, fmt.Errorf("'%.32s' cannot presign a URL", c.Type)
	}
	access, secret, session, err := o.keys(c)
	if err != nil {
		return nil, err
	}
	b, err := s3.New(s3.Config{
		Endpoint: endpointOf(c).String(), Region: c.Region, Bucket: c.Bucket,
		AccessKey: access, SecretKey: secret, SessionToken: session, PathStyle: c.PathStyle, CAFile: c.CAFile,
	})
	if err != nil {
		return nil, err
	}
	return bucketOf(b, c), nil
}

// keys are the credentials of a backend, from the first place that has them:
// the configuration, the variables that it names, those of AWS, and the file
// of AWS. Its errors have none of them.
func (o Options) keys(c config.Backend) (access, secret, session string, err error) {
	if c.AccessKey != "" || c.AccessKeyEnv != "" {
		if access, err = o.key("access_key_env", c.AccessKey, c.AccessKeyEnv); err == nil {
			secret, err = o.key("secret_key_env", c.SecretKey, c.SecretKeyEnv)
		}
		return access, secret, "", err
	}
	value, err := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
	}).GetWithContext(&credentials.CredContext{})
	if err != nil || value.AccessKeyID == "" || value.SecretAccessKey == "" {
		return "", "", "", errors.New("there are no credentials for it; set access_key_env and secret_key_env, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or ~/.aws/credentials")
	}
	return value.AccessKeyID, value.SecretAccessKey, value.SessionToken, nil
}

func (o Options) key(name string, inline config.Secret, variable string) (string, error) {
	if variable == "" {
		return inline.Reveal(), nil
	}
	if o.Getenv != nil {
		if value := o.Getenv(variable); value != "" {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s names the variable %.64q, which is not set", name, variable)
}

// endpointOf is the server of an S3 backend; without one, Amazon's.
func endpointOf(c config.Backend) *url.URL {
	endpoint := c.Endpoint
	if endpoint == "" {
		endpoint = "https://s3." + c.Region + ".amazonaws.com"
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return &url.URL{}
	}
	return u
}

// StorageURL is the server that the signed URLs of a backend lead to, as a
// sandbox names it.
func StorageURL(c config.Backend) string {
	u := *endpointOf(c)
	if !c.PathStyle {
		u.Host = c.Bucket + "." + u.Host
	}
	u.Path = ""
	return u.String()
}
