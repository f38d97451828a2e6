package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// retryable says whether the same request may succeed when it is made again.
func retryable(err error) bool {
	if _, ok := errors.AsType[final](err); ok {
		return false
	}
	if _, ok := errors.AsType[once](err); ok {
		return false
	}
	if untrusted(err) {
		return false
	}
	response, answered := errors.AsType[minio.ErrorResponse](err)
	if !answered {
		return true // it did not get through, or the answer did not
	}
	return busy(response)
}

// busy says whether a server answered that it can't answer now.
func busy(r minio.ErrorResponse) bool {
	switch r.Code {
	case "RequestTimeout", "SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "RequestLimitExceeded":
		return true
	}
	switch r.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return r.StatusCode >= 500 && !full(r) && r.StatusCode != http.StatusNotImplemented
}

func full(r minio.ErrorResponse) bool {
	switch r.Code {
	case "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientStorage":
		return true
	}
	return r.StatusCode == http.StatusInsufficientStorage
}

// explain is what a failed try means to the caller.
func (c *call) explain(err error) error {
	if c.caller.Err() != nil {
		return context.Cause(c.caller)
	}
	if f, ok := errors.AsType[final](err); ok {
		return c.wrap(f.error)
	}
	if errors.Is(context.Cause(c.ctx), errLate) {
		return c.fault(storage.ErrUnavailable, fmt.Sprintf("nothing came of it in %s", c.bound.Round(time.Millisecond)), "")
	}
	if r, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return c.answered(r)
	}
	if untrusted(err) {
		return c.fault(storage.ErrUnavailable, plain(err), "the server's certificate has to be trusted; name its authority in ca_file")
	}
	return c.fault(storage.ErrUnavailable, plain(err), "")
}

// answered is what a server's refusal means.
func (c *call) answered(r minio.ErrorResponse) error {
	detail := fmt.Sprintf("status %d", r.StatusCode)
	if r.Code != "" {
		detail += ", " + r.Code
	}
	switch {
	case r.Code == minio.NoSuchBucket:
		return c.fault(storage.ErrNotFound, detail, fmt.Sprintf("bucket %q has to exist", c.backend.config.Bucket))
	case missing(r):
		return c.fault(storage.ErrNotFound, detail, "")
	case full(r):
		return c.fault(storage.ErrNoSpace, detail, "")
	case busy(r), r.StatusCode >= 500:
		return c.fault(storage.ErrUnavailable, detail, "")
	}
	return c.fault(storage.ErrDenied, detail, c.hint(r))
}

// missing says whether a server answered that there is no such object. It may
// say of other things that they are not there, such as of an access key.
func missing(r minio.ErrorResponse) bool {
	switch r.Code {
	case minio.NoSuchKey, minio.NoSuchVersion, "NotFound", "":
		return r.StatusCode == http.StatusNotFound
	}
	return false
}

// hint says what to look at when a server refuses. The bodies of some answers
// never arrive (HEAD has none), so the clocks are compared for every refusal.
func (c *call) hint(r minio.ErrorResponse) string {
	ahead, known := c.clock.ahead()
	if r.Code == "RequestTimeTooSkewed" || known && ahead.Abs() > skewCap {
		if !known {
			return "the clocks of this host and of the server are too far apart: set them by NTP"
		}
		side := "ahead of"
		if ahead < 0 {
			side = "behind"
		}
		return fmt.Sprintf("this host's clock is %s %s the server's: set it by NTP", ahead.Abs().Round(time.Second), side)
	}
	switch r.Code {
	case "SignatureDoesNotMatch":
		return "secret_key does not belong to access_key, or something on the way changed the request"
	case "InvalidAccessKeyId", "InvalidClientTokenId", "XAdminUserNotFound":
		return "the server does not know access_key"
	case "ExpiredToken", "InvalidToken":
		return "the temporary credentials have to be renewed"
	case "AuthorizationHeaderMalformed", "InvalidRegion":
		return fmt.Sprintf("region %q has to be the bucket's", c.backend.config.Region)
	}
	if r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized {
		return fmt.Sprintf("the credentials need to get, put, delete and list in bucket %q", c.backend.config.Bucket)
	}
	return ""
}

func (c *call) fault(err error, detail, hint string) error {
	return &storage.Error{Op: c.op, Backend: Kind, Key: c.key, Detail: c.clean(detail), Hint: hint, Err: err}
}

func (c *call) wrap(err error) error { return c.fault(err, "", "") }

// clean takes out of a text what no text should hold.
func (c *call) clean(text string) string {
	for _, secret := range []string{c.backend.config.SecretKey, c.backend.config.SessionToken, c.backend.config.AccessKey} {
		// Less than this is a word, and no secret.
		if len(secret) >= 8 {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// plain is an error without the URL that the HTTP client puts before it.
func plain(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}

func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &name)
}
