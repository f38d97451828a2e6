package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// plants are the secrets that lie around a target: whatever a sandbox must not
// show to what runs inside.
type plants struct {
	token string
	// secret is what the planted file, environment and process hold.
	secret string
	// file is a file of the host that everybody may read.
	file string
	// process stands for the worker: it holds the secret in its environment.
	process *exec.Cmd
	hold    io.Closer
	// address and address6 are addresses of this host that are not loopback.
	address, address6 netip.Addr
	tcp, tcp6         net.Listener
	udp               net.PacketConn
	abstract          net.Listener
	socket            net.Listener
	shm               int
	shmKey            int
	// accepted counts who came to a listener.
	accepted atomic.Int64
}

// plant puts the secrets into dir and around it. What this host can't have is
// left out, and the specs that need it are not run.
func plant(dir, token, hostile string) (*plants, error) {
	p := &plants{token: token, secret: "secret-" + token + "-" + newToken(), shm: -1}
	p.file = filepath.Join(dir, "host-file-"+token)
	if err := os.WriteFile(p.file, []byte(p.secret+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("planting a file: %w", err)
	}
	p.process = exec.Command(hostile, "stand-in", "stand-in-"+token)
	p.process.Env = []string{"BATLEHUB_CONFORMANCE_SECRET=" + p.secret}
	var err error
	// It ends when this pipe does, however this process comes to its end.
	if p.hold, err = p.process.StdinPipe(); err == nil {
		err = p.process.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("planting a process: %w", err)
	}
	p.address, p.address6 = localAddresses()
	if err := p.listen(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("planting a listener: %w", err), p.remove())
	}
	p.shareMemory()
	return p, nil
}

func (p *plants) listen(dir string) error {
	var err error
	if p.address.IsValid() {
		if p.tcp, err = net.Listen("tcp", netip.AddrPortFrom(p.address, 0).String()); err != nil {
			return err
		}
		go p.accept(p.tcp)
		if p.udp, err = net.ListenPacket("udp", netip.AddrPortFrom(p.address, 0).String()); err != nil {
			return err
		}
		go p.echo()
	}
	if p.address6.IsValid() {
		if p.tcp6, err = net.Listen("tcp", netip.AddrPortFrom(p.address6, 0).String()); err == nil {
			go p.accept(p.tcp6)
		}
	}
	if p.abstract, err = net.Listen("unix", "@sandbox-conformance-"+p.token); err != nil {
		return err
	}
	go p.accept(p.abstract)
	name := filepath.Join(dir, "socket")
	if p.socket, err = net.Listen("unix", name); err != nil {
		return err
	}
	go p.accept(p.socket)
	return os.Chmod(name, 0o666)
}

func (p *plants) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		_ = conn.Close()
	}
}

// echo sends every datagram back, so that who sent it knows that it arrived.
func (p *plants) echo() {
	buf := make([]byte, 2048)
	for {
		n, from, err := p.udp.ReadFrom(buf)
		if err != nil {
			return
		}
		p.accepted.Add(1)
		_, _ = p.udp.WriteTo(buf[:n], from)
	}
}

// shareMemory makes a segment of System V shared memory under a random key.
func (p *plants) shareMemory() {
	key := int(binary.NativeEndian.Uint32([]byte(p.token)[:4])&0x3fffffff) | 1
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err == nil {
		p.shm, p.shmKey = id, key
	}
}

// remove takes everything away again.
func (p *plants) remove() error {
	var errs []error
	for _, l := range []net.Listener{p.tcp, p.tcp6, p.abstract, p.socket} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if p.udp != nil {
		errs = append(errs, p.udp.Close())
	}
	if p.shm >= 0 {
		_, err := unix.SysvShmCtl(p.shm, unix.IPC_RMID, nil)
		errs = append(errs, err)
	}
	if p.process != nil && p.process.Process != nil {
		errs = append(errs, p.hold.Close(), p.process.Process.Kill())
		_ = p.process.Wait()
	}
	return errors.Join(errs...)
}

// canaries are the addresses that no run without network may reach: this
// host's own listener, and one that nobody answers for, so that a sandbox
// whose wall drops packets is told from one with no route at all.
func (p *plants) canaries() []netip.AddrPort {
	if p.tcp == nil {
		return nil
	}
	return []netip.AddrPort{netip.MustParseAddrPort(p.tcp.Addr().String())}
}

func (p *plants) pid() string { return strconv.Itoa(p.process.Process.Pid) }

// halves splits the secret, so that who is told what to look for does not
// itself hold it.
func (p *plants) halves() []string { return []string{p.secret[:12], p.secret[12:]} }

// localAddresses are an IPv4 and an IPv6 address of this host that a sandbox
// could route to if its wall were down.
func localAddresses() (four, six netip.Addr) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		switch addr := prefix.Addr(); {
		case addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast():
		case addr.Is4() && !four.IsValid():
			four = addr
		case addr.Is6() && !six.IsValid():
			six = addr
		}
	}
	return four, six
}
