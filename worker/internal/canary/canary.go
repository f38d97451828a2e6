// Package canary gives a sandbox something that it must not reach.
//
// A network wall is only seen to stand if there is something on its other
// side. So this listens, for as long as runs are made, on an address of this
// host that a sandbox could route to if its wall were down; loopback would be
// the sandbox's own, and prove nothing.
package canary

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Public is an address that answers wherever there is a way out.
var Public = netip.MustParseAddrPort("1.1.1.1:53")

// Canary is the listener.
type Canary struct {
	listener net.Listener
	wait     sync.WaitGroup
}

// Listen starts listening where that is possible. A host without an address
// that could be routed to is left with the public canary.
func Listen() *Canary {
	c := &Canary{}
	for _, addr := range routable() {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		if err != nil {
			continue
		}
		c.listener = l
		c.wait.Go(func() { serve(l) })
		break
	}
	return c
}

// serve takes every connection and says nothing.
func serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

// Addrs are the addresses that must not answer.
func (c *Canary) Addrs() []netip.AddrPort {
	if c.listener == nil {
		return []netip.AddrPort{Public}
	}
	addr, err := netip.ParseAddrPort(c.listener.Addr().String())
	if err != nil {
		return []netip.AddrPort{Public}
	}
	return []netip.AddrPort{netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), Public}
}

// Close stops listening.
func (c *Canary) Close() {
	if c.listener != nil {
		_ = c.listener.Close()
		c.wait.Wait()
	}
}

// routable are this host's own addresses that others can route to, IPv4 first.
func routable() []netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var found []netip.Addr
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if addr := prefix.Addr().Unmap(); err == nil && addr.IsGlobalUnicast() && addr.Zone() == "" {
			found = append(found, addr)
		}
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return found
}
