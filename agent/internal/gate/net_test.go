package gate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The tests make networks of their own, so each runs again in this program in a
// new network namespace, and in a user namespace too where it is not root.
const inside = "GATE_TEST_INSIDE"

// farHost is the argv[0] that makes this program the other host of a network.
const farHost = "gate-far-host"

func TestMain(m *testing.M) {
	if os.Args[0] == farHost {
		if err := far(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ownNetwork reports whether this is the run inside. Outside it runs the test
// inside and takes over its outcome.
func ownNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("not run: there is no ip (iproute2)")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = newNetwork()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Skipf("not run: this host refuses a network namespace: %v", err)
	}
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("the test did not run inside:\n%s", out)
	}
	return false
}

func newNetwork() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// ip runs ip(8) with each line of a script.
func ip(script string) error {
	for line := range strings.Lines(script) {
		if fields := strings.Fields(line); len(fields) > 0 {
			if out, err := exec.Command("ip", fields...).CombinedOutput(); err != nil {
				return fmt.Errorf("ip %s: %w: %s", strings.TrimSpace(line), err, out)
			}
		}
	}
	return nil
}

// carrier waits until an interface passes packets. The kernel notices a veth's
// other end a moment after it is up, and drops what is sent before.
func carrier(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		if i, err := net.InterfaceByName(name); err == nil && i.Flags&net.FlagRunning != 0 {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("%s has no carrier", name)
		}
	}
}

// The two hosts of a network with a real kernel on both ends. The far one is
// also the gateway to everything else, and refuses some of it.
const (
	nearSetUp = `
		link add near type veth peer name far
		addr add 192.0.2.2/24 dev near
		addr add 2001:db8::2/64 dev near nodad
		link set lo up
		link set near up`
	nearRoutes = `
		route add default via 192.0.2.1
		route add default via 2001:db8::1`
	farSetUp = `
		addr add 192.0.2.1/24 dev far
		addr add 2001:db8::1/64 dev far nodad
		link set lo up
		link set far up
		route add prohibit 198.51.100.1
		route add unreachable 198.51.100.2
		route add blackhole 198.51.100.3
		route add prohibit 2001:db8:1::1
		route add unreachable 2001:db8:1::2
		route add blackhole 2001:db8:1::3`
)

// far is the other host: told to begin by a line, it says ready and stays
// until its input ends.
func far() error {
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	if err := ip(farSetUp); err != nil {
		return err
	}
	for _, file := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"} {
		if err := os.WriteFile(file, []byte("1"), 0); err != nil {
			return err
		}
	}
	for _, address := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		defer l.Close()
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, in)
	return err
}

// startFar joins this network namespace to another host's.
func startFar(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.CommandContext(t.Context(), self)
	host.Args[0] = farHost
	host.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	stdin, err := host.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := host.Wait(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	if err := ip(fmt.Sprintf("%s\nlink set far netns %d", nearSetUp, host.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(stdin)
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("the far host says %q", line)
	}
	if err := ip(nearRoutes); err != nil {
		t.Fatal(err)
	}
	carrier(t, "near")
}
