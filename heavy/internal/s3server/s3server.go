// Package s3server starts real S3 servers for tests: MinIO and versitygw, which
// share no code, so that what holds on both is no habit of one.
package s3server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/child"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
)

// Kind is a kind of server.
type Kind string

// The servers.
const (
	MinIO     Kind = "minio"
	VersityGW Kind = "versitygw"
)

// Kinds are all servers.
var Kinds = []Kind{MinIO, VersityGW}

// The credentials of every server's root, and the region that it answers for.
const (
	AccessKey = "test-access-key"
	SecretKey = "test-secret-key-of-no-value"
	Region    = "us-east-1"
	Bucket    = "bundles"
)

// readyTime bounds how long a server may take to come up.
const readyTime = 60 * time.Second

// Options say how a server is started.
type Options struct {
	// Host is the address to listen on; empty means 127.0.0.1.
	Host string
	// Env is what the server's environment has besides.
	Env []string
}

// Server is one running server, with one bucket.
type Server struct {
	kind    Kind
	binary  string
	options Options
	dir     string
	address string
	process *child.Process
}

// Start starts a server on a free port and makes its bucket. It ends with the
// test, which is skipped where the server can't be built.
func Start(t testing.TB, kind Kind, o Options) *Server {
	t.Helper()
	s, err := Launch(t.Context(), kind, Binary(t, kind), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Launch is Start for what is no test. Remove ends it.
func Launch(ctx context.Context, kind Kind, binary string, o Options) (*Server, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	address, err := freeAddress(ctx, o.Host)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sandbox-s3-")
	if err != nil {
		return nil, err
	}
	s := &Server{kind: kind, binary: binary, options: o, dir: dir, address: address}
	err = os.Mkdir(filepath.Join(dir, "data"), 0o700)
	if err == nil {
		err = s.Resume(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

// Remove ends the server and removes what it stored.
func (s *Server) Remove() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}

// Binary is the server's program, built if need be.
func Binary(t testing.TB, kind Kind) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(root(t), "scripts", "tool.sh"), string(kind)).Output()
	if err != nil {
		reason := err.Error()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
			reason = lines[len(lines)-1]
		}
		t.Skipf("not run: there is no %s here: %s", kind, reason)
	}
	return strings.TrimSpace(string(out))
}

// root is the checkout.
func root(t testing.TB) string {
	_, file, _, ok := runtime.Caller(0)
	if dir, err := os.Getwd(); err == nil && !ok || !filepath.IsAbs(file) {
		file = filepath.Join(dir, "x") // built with -trimpath
	}
	for dir := filepath.Dir(file); dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "tool.sh")); err == nil {
			return dir
		}
	}
	t.Skip("not run: scripts/tool.sh is not above the test's directory")
	return ""
}

func freeAddress(ctx context.Context, host string) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Restart starts the server again where it was, on what it had stored.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Resume is Restart for what is not the test's own goroutine.
func (s *Server) Resume(ctx context.Context) error {
	s.Kill()
	var err error
	if s.process, err = child.Start(s.command(), filepath.Join(s.dir, "log")); err != nil {
		return fmt.Errorf("starting %s: %w", s.kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		return fmt.Errorf("%s did not come up: %w\n%s", s.kind, err, s.log())
	}
	return nil
}

func (s *Server) command() *exec.Cmd {
	data := filepath.Join(s.dir, "data")
	args := []string{"--port", s.address, "--region", Region, "posix", data}
	env := []string{"ROOT_ACCESS_KEY=" + AccessKey, "ROOT_SECRET_KEY=" + SecretKey}
	if s.kind == MinIO {
		args = []string{"server", "--quiet", "--address", s.address, data}
		env = []string{
			"MINIO_ROOT_USER=" + AccessKey, "MINIO_ROOT_PASSWORD=" + SecretKey, "MINIO_REGION=" + Region,
			"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=on",
		}
	}
	cmd := exec.Command(s.binary, args...)
	cmd.Dir = s.dir
	cmd.Env = append(append(env, "HOME="+s.dir, "PATH="+os.Getenv("PATH")), s.options.Env...)
	return cmd
}

// ready waits for the server to answer, and for its bucket.
func (s *Server) ready(ctx context.Context) error {
	client, err := minio.New(s.address, &minio.Options{
		Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: Region,
		BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		exists, err := client.BucketExists(ctx, Bucket)
		if err == nil && !exists {
			err = client.MakeBucket(ctx, Bucket, minio.MakeBucketOptions{Region: Region})
		}
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.process.Done():
			return errors.New("it ended")
		case <-ctx.Done():
			return err
		}
	}
}

func (s *Server) log() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(b)
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// Kind is the server's kind.
func (s *Server) Kind() Kind { return s.kind }

// Address is the server's host and port.
func (s *Server) Address() string { return s.address }

// Endpoint is the server's URL.
func (s *Server) Endpoint() string { return "http://" + s.address }

// Config is the bucket, as the server's root.
func (s *Server) Config() s3.Config {
	return s3.Config{
		Endpoint: s.Endpoint(), Region: Region, Bucket: Bucket, PathStyle: true,
		AccessKey: AccessKey, SecretKey: SecretKey,
	}
}

// Backend is the bucket, with what change makes of its configuration.
func (s *Server) Backend(t testing.TB, change ...func(*s3.Config)) *s3.Backend {
	t.Helper()
	c := s.Config()
	for _, f := range change {
		f(&c)
	}
	b, err := s3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// String is the server's kind and address.
func (s *Server) String() string { return fmt.Sprintf("%s at %s", s.kind, s.address) }
