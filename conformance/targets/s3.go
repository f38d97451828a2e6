package targets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
)

// S3Servers are the servers that can be started for the storage transport.
var S3Servers = []string{"minio", "versitygw"}

// s3Access is a bucket and who may use it. It goes to worker processes, which
// is why it is no s3.Config: that one never shows its keys.
type s3Access struct {
	Endpoint, Bucket, AccessKey, SecretKey string
}

func (a *s3Access) backend() (storage.Backend, error) {
	return s3.New(s3.Config{Endpoint: a.Endpoint, Region: s3Region, Bucket: a.Bucket, AccessKey: a.AccessKey, SecretKey: a.SecretKey, PathStyle: true})
}

const s3Region = "us-east-1"

// s3Server is a server that ends with this process, on an address of this host
// that a sandbox can be routed to.
type s3Server struct {
	access  s3Access
	address netip.AddrPort
	dir     string
	cmd     *exec.Cmd
	done    chan struct{}
	err     error
}

// startS3 starts a server of a kind on a free port, and makes a bucket.
func startS3(ctx context.Context, kind, binary string) (*s3Server, error) {
	if !slices.Contains(S3Servers, kind) {
		return nil, fmt.Errorf("%q is no server that this command starts: %s", kind, strings.Join(S3Servers, " or "))
	}
	if _, err := exec.LookPath(binary); err != nil {
		return nil, fmt.Errorf("there is no %s (build it with scripts/tool.sh %s, and name it): %w", kind, kind, err)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sandbox-conformance-s3-")
	if err != nil {
		return nil, err
	}
	s := &s3Server{address: address, dir: dir, done: make(chan struct{}), access: s3Access{
		Endpoint: "http://" + address.String(), Bucket: "bundles", AccessKey: "conformance", SecretKey: "a-secret-of-no-value",
	}}
	if err := s.start(kind, binary); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.ready(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return nil, errors.Join(fmt.Errorf("%s did not come up: %w: %.500s", kind, err, log), s.close())
	}
	return s, nil
}

// freeAddress is a free port of an address of this host that is not loopback.
func freeAddress() (netip.AddrPort, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", netip.AddrPortFrom(p.Addr(), 0).String())
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }()
		return netip.ParseAddrPort(l.Addr().String())
	}
	return netip.AddrPort{}, errors.New("this host has no IPv4 address but loopback for a storage server")
}

func (s *s3Server) start(kind, binary string) error {
	data := filepath.Join(s.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	args := []string{"server", "--quiet", "--address", s.address.String(), data}
	env := []string{
		"MINIO_ROOT_USER=" + s.access.AccessKey, "MINIO_ROOT_PASSWORD=" + s.access.SecretKey, "MINIO_REGION=" + s3Region,
		"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=on",
	}
	if kind == "versitygw" {
		args = []string{"--port", s.address.String(), "--region", s3Region, "posix", data}
		env = []string{"ROOT_ACCESS_KEY=" + s.access.AccessKey, "ROOT_SECRET_KEY=" + s.access.SecretKey}
	}
	s.cmd = exec.Command(binary, args...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, log, log
	s.cmd.Env = append(env, "HOME="+s.dir, "PATH="+os.Getenv("PATH"))
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		// The signal comes when the thread that started the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = log.Close() }()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.err = s.cmd.Wait()
		}
		close(s.done)
	}()
	return <-started
}

// ready waits for the server to answer, and makes its bucket.
func (s *s3Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client, err := minio.New(s.address.String(), &minio.Options{
		Creds: credentials.NewStaticV4(s.access.AccessKey, s.access.SecretKey, ""), Region: s3Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		return err
	}
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		exists, err := client.BucketExists(ctx, s.access.Bucket)
		if err == nil && !exists {
			err = client.MakeBucket(ctx, s.access.Bucket, minio.MakeBucketOptions{Region: s3Region})
		}
		if err == nil {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-s.done:
			return fmt.Errorf("it ended: %w", s.err)
		case <-ctx.Done():
			return err
		}
	}
}

// serverVersion is what a server's program says of itself.
func serverVersion(ctx context.Context, binary string) string {
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// close ends the server and removes what it stored.
func (s *s3Server) close() error {
	_ = s.cmd.Process.Kill()
	<-s.done
	return os.RemoveAll(s.dir)
}
