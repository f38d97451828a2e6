package targets

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
)

// ociStorage is the storage transport's half of this host: a server with a
// bucket, and the firewall that lets networks of runs reach it alone.
type ociStorage struct {
	*s3Server
	pool  netip.Prefix
	store *conformance.Store
	// table is the firewall's name and ruleset what nft is given.
	table, ruleset string
}

func startStorage(ctx context.Context, o OCIOptions) (*ociStorage, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the storage transport needs root here: its firewall is the host's")
	}
	server, err := startS3(ctx, o.S3, o.S3Binary)
	if err != nil {
		return nil, err
	}
	// Not the runtime's own pool, which an operator's firewall may know, and a
	// part of it at random, so that two suites at once do not meet.
	pool := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 214, byte(rand.N(256)), 0}), 24)
	s := &ociStorage{s3Server: server, pool: pool}
	leaf, err := server.access.backend()
	if err != nil {
		return nil, errors.Join(err, server.close())
	}
	s.store = conformance.NewStore(leaf, bundle.DefaultPrefix)
	ruleset, err := firewall.Ruleset(firewall.Zone{Pool: s.pool, Storage: []netip.AddrPort{server.address}})
	if err != nil {
		return nil, errors.Join(err, server.close())
	}
	// A table of its own: an operator's may be there already.
	s.table = fmt.Sprintf("%s_conformance_%d", firewall.Table, os.Getpid())
	s.ruleset = strings.ReplaceAll(ruleset, firewall.Table, s.table)
	if err := s.shut(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("installing the firewall (nft, of nftables, is needed for it): %w", err), server.close())
	}
	return s, nil
}

func (s *ociStorage) endpoint() string { return s.access.Endpoint }

// shut installs the firewall.
func (s *ociStorage) shut(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(s.ruleset)
	_, err := cmd.Output()
	return withStderr(err)
}

// open takes the firewall away.
func (s *ociStorage) open(ctx context.Context) error {
	_, err := exec.CommandContext(ctx, "nft", "delete", "table", "inet", s.table).Output()
	return withStderr(err)
}

func (s *ociStorage) close() error {
	return errors.Join(s.open(context.Background()), s.s3Server.close())
}
