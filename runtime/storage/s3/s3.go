package s3

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// Kind is the kind of this backend in the configuration.
const Kind = "s3"

// putCap is the largest object that one PUT stores. More would need an upload
// in parts, and one that breaks off leaves its parts behind.
const putCap = 5 << 30

// Backend is a storage.Backend in a bucket.
type Backend struct {
	config Config
	client minio.Core
	http   *http.Transport
}

// New returns the backend of a bucket. It asks the server nothing yet.
func New(c Config) (*Backend, error) {
	c.complete()
	endpoint, err := c.endpoint()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, fmt.Errorf("s3 storage: %w", err)
	}
	transport, err := c.transport()
	if err != nil {
		return nil, fmt.Errorf("s3 storage: %w", err)
	}
	lookup := minio.BucketLookupDNS
	if c.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(c.AccessKey, c.SecretKey, c.SessionToken),
		Secure:       endpoint.Scheme == "https",
		Transport:    clockReader{transport},
		Region:       c.Region,
		BucketLookup: lookup,
		MaxRetries:   1, // what may be repeated is decided here
	})
	if err != nil {
		return nil, fmt.Errorf("s3 storage: endpoint %s: %w", endpoint.Redacted(), err)
	}
	return &Backend{config: c, client: minio.Core{Client: client}, http: transport}, nil
}

// String says where the bucket is, and nothing secret.
func (b *Backend) String() string { return b.config.String() }

// GoString keeps the credentials out of %#v.
func (b *Backend) GoString() string { return b.String() }

// Close closes idle connections.
func (b *Backend) Close() error {
	b.http.CloseIdleConnections()
	return nil
}

// Kind implements storage.Backend.
func (*Backend) Kind() string { return Kind }

// Get implements storage.Backend. The transfer is inside a deadline that its
// size moves.
func (b *Backend) Get(ctx context.Context, key string) (io.ReadCloser, storage.Object, error) {
	c, err := b.begin(ctx, "get", key)
	if err != nil {
		return nil, storage.Object{}, err
	}
	var body io.ReadCloser
	var info minio.ObjectInfo
	err = c.repeat(func(ctx context.Context) error {
		var err error
		body, info, _, err = b.client.GetObject(ctx, b.config.Bucket, key, minio.GetObjectOptions{})
		return err
	})
	if err != nil {
		c.end()
		return nil, storage.Object{}, err
	}
	c.extend(info.Size)
	o := storage.Object{Key: key, Size: info.Size, Modified: info.LastModified}
	return &download{call: c, body: body, left: info.Size}, o, nil
}

// Put implements storage.Backend, in one request.
func (b *Backend) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	c, err := b.begin(ctx, "put", key)
	if err != nil {
		return err
	}
	defer c.end()
	if size < 0 || size > putCap {
		return c.fault(storage.ErrSize, fmt.Sprintf("%d bytes, want 0 to %d", size, int64(putCap)), "")
	}
	c.extend(size)
	return c.upload(r, size, func(ctx context.Context, body io.Reader) error {
		_, err := b.client.Client.PutObject(ctx, b.config.Bucket, key, body, size, minio.PutObjectOptions{
			ContentType: "application/octet-stream", DisableMultipart: true,
		})
		return err
	})
}

// Head implements storage.Backend.
func (b *Backend) Head(ctx context.Context, key string) (storage.Object, error) {
	c, err := b.begin(ctx, "head", key)
	if err != nil {
		return storage.Object{}, err
	}
	defer c.end()
	var info minio.ObjectInfo
	err = c.repeat(func(ctx context.Context) error {
		var err error
		info, err = b.client.StatObject(ctx, b.config.Bucket, key, minio.StatObjectOptions{})
		return err
	})
	if err != nil {
		return storage.Object{}, err
	}
	return storage.Object{Key: key, Size: info.Size, Modified: info.LastModified}, nil
}

// Delete implements storage.Backend.
func (b *Backend) Delete(ctx context.Context, key string) error {
	c, err := b.begin(ctx, "delete", key)
	if err != nil {
		return err
	}
	defer c.end()
	return c.repeat(func(ctx context.Context) error {
		err := b.client.RemoveObject(ctx, b.config.Bucket, key, minio.RemoveObjectOptions{})
		if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
			return nil
		}
		return err
	})
}

// List implements storage.Backend. The time a caller takes with an object is
// its own; each page of the listing has a call's.
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		last := ""
		for more := true; more; {
			page, err := b.page(ctx, prefix, last)
			if err != nil {
				yield(storage.Object{}, err)
				return
			}
			for _, o := range page {
				if !yield(o, nil) {
					return
				}
				last = o.Key
			}
			more = len(page) == pageSize
		}
	}
}

// pageSize is how many objects a page of a listing has, the most that S3 gives.
const pageSize = 1000

// page is the next objects of a listing, after the key last.
func (b *Backend) page(ctx context.Context, prefix, last string) ([]storage.Object, error) {
	c, err := b.begin(ctx, "list", "")
	if err != nil {
		return nil, err
	}
	c.key = prefix
	defer c.end()
	var page []storage.Object
	err = c.repeat(func(ctx context.Context) error {
		page = page[:0]
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for o := range b.client.ListObjectsIter(ctx, b.config.Bucket, minio.ListObjectsOptions{
			Prefix: prefix, Recursive: true, StartAfter: last, MaxKeys: pageSize,
		}) {
			if o.Err != nil {
				return o.Err
			}
			page = append(page, storage.Object{Key: o.Key, Size: o.Size, Modified: o.LastModified})
			if len(page) == pageSize {
				return nil
			}
		}
		return ctx.Err()
	})
	return page, err
}

// PresignGet implements storage.Backend, without asking the server.
func (b *Backend) PresignGet(ctx context.Context, key string, ttl time.Duration) (string, error) {
	return b.presign(ctx, http.MethodGet, "presign get", key, ttl, nil)
}

// PresignPut implements storage.Backend, without asking the server. The length
// is among the signed headers.
func (b *Backend) PresignPut(ctx context.Context, key string, ttl time.Duration, size int64) (string, error) {
	return b.presign(ctx, http.MethodPut, "presign put", key, ttl, http.Header{
		"Content-Length": {strconv.FormatInt(size, 10)},
	})
}

func (b *Backend) presign(
	ctx context.Context, method, op, key string, ttl time.Duration, signed http.Header,
) (string, error) {
	c, err := b.begin(ctx, op, key)
	if err != nil {
		return "", err
	}
	defer c.end()
	// A signature's life is in whole seconds.
	whole := (ttl + time.Second - 1).Truncate(time.Second)
	u, err := b.client.PresignHeader(ctx, method, b.config.Bucket, key, whole, nil, signed)
	if err != nil {
		return "", c.fault(storage.ErrDenied, err.Error(), "a presigned URL lives one second to seven days")
	}
	return u.String(), nil
}
