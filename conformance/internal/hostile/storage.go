package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{
		"http":       requests,
		"ways-out":   waysOut,
		"listen-for": listenFor,
		"seek-net":   seekNet,
	})
}

// requests makes HTTP requests at an address and keeps the status of each:
// "METHOD LENGTH TARGET", where a length of -1 sends a body in chunks. It is a
// client of a few lines, so that this program stays small.
func requests(r *attempt.Report, args []string) {
	r.Values = map[string][]string{}
	for _, request := range args[2:] {
		status, err := ask(args[0], args[1], request)
		if err != nil {
			status = netErrno(err)
		}
		r.Values[request] = []string{status}
	}
}

func ask(address, host, request string) (status string, err error) {
	parts := strings.SplitN(request, " ", 3)
	if len(parts) != 3 {
		return "", errors.New("usage")
	}
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	length, body := "", ""
	switch n := atoi(strings.TrimPrefix(parts[1], "-")); {
	case parts[1] == "-1":
		length, body = "Transfer-Encoding: chunked\r\n", "5\r\nxxxxx\r\n0\r\n\r\n"
	case n > 0 || parts[0] == "PUT" || parts[0] == "POST":
		length, body = fmt.Sprintf("Content-Length: %d\r\n", n), strings.Repeat("x", n)
	}
	if _, err := io.WriteString(conn, parts[0]+" "+parts[2]+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n"+length+"\r\n"+body); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", err
	}
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return "", errors.New("no status line: " + line)
	}
	return fields[1], nil
}

// waysOut tries one address that is allowed and everything else it can think
// of: addresses that it was told, and "neighbours:PORT" for every address of
// the small networks that it is on. It achieves its end where anything but the
// allowed one answers.
func waysOut(r *attempt.Report, args []string) {
	r.Values = map[string][]string{"allowed": {dialled(args[0], patience)}}
	if r.Values["allowed"][0] == "" {
		r.Values["allowed"][0] = "open"
	}
	var targets []string
	for _, prefix := range ownNetworks(r) {
		for _, a := range args[1:] {
			if port, ok := strings.CutPrefix(a, "neighbours:"); ok {
				targets = append(targets, around(prefix, port)...)
			}
		}
	}
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "neighbours:") && a != args[0] {
			targets = append(targets, a)
		}
	}
	targets = slices.DeleteFunc(targets, func(a string) bool { return a == args[0] })
	r.Values["tried"] = []string{fmt.Sprint(len(targets)), strings.Join(targets[max(0, len(targets)-24):], " ")}
	for i, answer := range dialAll(targets, patience) {
		// A host's own refusal is a packet that arrived.
		if answer == "" || answer == "ECONNREFUSED" {
			r.Calls = append(r.Calls, attempt.Call{Name: "connect " + targets[i], Errno: answer})
			r.Achieved, r.Detail = true, r.Detail+" a packet arrived at "+targets[i]
		}
	}
	// A datagram needs no connection.
	for _, resolver := range append(targets[:0:0], "1.1.1.1:53") {
		if exchangeUDP(resolver, []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1}) == nil {
			r.Calls = append(r.Calls, attempt.Call{Name: "ask " + resolver})
			r.Achieved, r.Detail = true, r.Detail+" a resolver answered at "+resolver
		}
	}
}

// ownNetworks are the IPv4 networks that this process has an address in, at
// most 256 addresses of each.
func ownNetworks(r *attempt.Report) []netip.Prefix {
	list, err := net.InterfaceAddrs()
	if err != nil {
		r.Errno = errnoName(err)
		return nil
	}
	var found []netip.Prefix
	for _, a := range list {
		if r.Values != nil {
			r.Values["interfaces"] = append(r.Values["interfaces"], a.String())
		}
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			found = append(found, netip.PrefixFrom(p.Addr(), max(p.Bits(), 24)))
		}
	}
	return found
}

// around lists the addresses of a network, its own left out.
func around(p netip.Prefix, port string) []string {
	var list []string
	for a := p.Masked().Addr(); p.Contains(a); a = a.Next() {
		if a != p.Addr() {
			list = append(list, net.JoinHostPort(a.String(), port))
		}
	}
	return list
}

// dialAll connects to many addresses, a bounded number at once.
func dialAll(targets []string, wait time.Duration) []string {
	answers := make([]string, len(targets))
	slots := make(chan struct{}, 200)
	var all sync.WaitGroup
	for i, address := range targets {
		slots <- struct{}{}
		all.Go(func() {
			answers[i] = dialled(address, wait)
			<-slots
		})
	}
	all.Wait()
	return answers
}

// listenFor listens on a port of every address for a while, and achieves its
// end where somebody comes.
func listenFor(r *attempt.Report, args []string) {
	r.Values = map[string][]string{}
	for _, p := range ownNetworks(&attempt.Report{}) {
		r.Values["addresses"] = append(r.Values["addresses"], p.Addr().String())
	}
	l, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		r.Errno = errnoName(err)
		stay(duration(args[1]))
		return
	}
	defer func() { _ = l.Close() }()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(duration(args[1])))
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		r.Achieved, r.Detail = true, "somebody came from "+conn.RemoteAddr().String()
		_ = conn.Close()
	}
}

// seekNet looks for such a listener on every network that it is on, loopback
// included, and on the networks beside them.
func seekNet(r *attempt.Report, args []string) {
	end := time.Now().Add(duration(args[1]))
	targets := []string{"127.0.0.1:" + args[0]}
	for _, p := range ownNetworks(r) {
		targets = append(targets, around(netip.PrefixFrom(p.Addr(), 24), args[0])...)
	}
	r.Detail = fmt.Sprintf("%d addresses", len(targets))
	for {
		for i, answer := range dialAll(targets, patience/5) {
			if answer == "" {
				r.Achieved, r.Detail = true, "another run was met at "+targets[i]
			}
		}
		if r.Achieved || time.Now().After(end) {
			return
		}
		stay(50 * time.Millisecond)
	}
}
