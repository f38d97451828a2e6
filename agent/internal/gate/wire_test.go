package gate_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// How a host on the made-up wire answers, by the last byte of its address.
const (
	answerSynAck = iota + 10
	answerReset
	answerPortUnreachableByGateway
	answerPortUnreachableByItself
	answerProhibitedByGateway
	answerProhibitedByItself
	answerNothing
)

const nearMAC, farMAC = "02:00:00:00:00:01", "02:00:00:00:00:02"

// startWire makes a network whose far end is not a kernel but answer: every
// packet gets exactly the reply that its address asks for.
func startWire(t *testing.T) {
	t.Helper()
	if err := ip(`link set lo up
		link add near address ` + nearMAC + ` type veth peer name far address ` + farMAC + `
		addr add 192.0.2.2/24 dev near
		addr add 2001:db8::2/64 dev near nodad
		link set near up
		link set far up
		neigh add 192.0.2.1 lladdr ` + farMAC + ` dev near nud permanent
		neigh add 2001:db8::1 lladdr ` + farMAC + ` dev near nud permanent
		route add default via 192.0.2.1
		route add default via 2001:db8::1`); err != nil {
		t.Fatal(err)
	}
	carrier(t, "near")
	carrier(t, "far")
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	const all = unix.ETH_P_ALL<<8&0xFF00 | unix.ETH_P_ALL>>8 // in network order
	index, err := unix.NewIfreq("far")
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, index)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: int(index.Uint32())})
	}
	if err != nil {
		t.Fatal(err)
	}
	// The process ends with the test inside, and the reader with it.
	go func() {
		frame := make([]byte, 2048)
		for {
			n, from, err := unix.Recvfrom(fd, frame, 0)
			if err != nil {
				return
			}
			if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype != unix.PACKET_OUTGOING {
				if reply := answer(frame[:n]); reply != nil {
					_, _ = unix.Write(fd, reply)
				}
			}
		}
	}()
}

// answer makes the frame that a SYN gets, or nil.
func answer(frame []byte) []byte {
	if len(frame) < 14+40 {
		return nil
	}
	packet := frame[14:]
	var from, to netip.Addr
	var head int
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_IP:
		from, to, head = netip.AddrFrom4([4]byte(packet[12:])), netip.AddrFrom4([4]byte(packet[16:])), int(packet[0]&15)*4
		if packet[9] != unix.IPPROTO_TCP {
			return nil
		}
	case unix.ETH_P_IPV6:
		from, to, head = netip.AddrFrom16([16]byte(packet[8:])), netip.AddrFrom16([16]byte(packet[24:])), 40
		if packet[6] != unix.IPPROTO_TCP {
			return nil
		}
	default:
		return nil
	}
	segment := packet[head:]
	if len(segment) < 20 || segment[13]&0x12 != 0x02 { // SYN without ACK
		return nil
	}
	gateway := netip.MustParseAddr("192.0.2.1")
	if to.Is6() {
		gateway = netip.MustParseAddr("2001:db8::1")
	}
	reply := append(append(append([]byte(nil), frame[6:12]...), frame[:6]...), frame[12:14]...)
	switch b := to.AsSlice(); b[len(b)-1] {
	case answerSynAck:
		return append(reply, tcp(to, from, segment, 0x12)...)
	case answerReset:
		return append(reply, tcp(to, from, segment, 0x14)...)
	case answerPortUnreachableByGateway:
		return append(reply, unreachable(gateway, from, packet, 3, 4)...)
	case answerPortUnreachableByItself:
		return append(reply, unreachable(to, from, packet, 3, 4)...)
	case answerProhibitedByGateway:
		return append(reply, unreachable(gateway, from, packet, 13, 1)...)
	case answerProhibitedByItself:
		return append(reply, unreachable(to, from, packet, 13, 1)...)
	}
	return nil
}

// tcp answers a SYN with a segment of the given flags.
func tcp(from, to netip.Addr, syn []byte, flags byte) []byte {
	s := make([]byte, 20)
	copy(s[0:2], syn[2:4])
	copy(s[2:4], syn[0:2])
	binary.BigEndian.PutUint32(s[4:], 7)
	binary.BigEndian.PutUint32(s[8:], binary.BigEndian.Uint32(syn[4:])+1)
	s[12], s[13] = 5<<4, flags
	binary.BigEndian.PutUint16(s[14:], 1024)
	binary.BigEndian.PutUint16(s[16:], checksum(pseudo(from, to, unix.IPPROTO_TCP, s), s))
	return datagram(from, to, unix.IPPROTO_TCP, s)
}

// unreachable is ICMP's destination unreachable about a packet, with the code
// for its family.
func unreachable(from, to netip.Addr, packet []byte, code4, code6 byte) []byte {
	m := make([]byte, 8)
	if from.Is4() {
		m[0], m[1] = 3, code4
		m = append(m, packet[:min(len(packet), 64)]...)
		binary.BigEndian.PutUint16(m[2:], checksum(nil, m))
		return datagram(from, to, unix.IPPROTO_ICMP, m)
	}
	m[0], m[1] = 1, code6
	m = append(m, packet[:min(len(packet), 100)]...)
	binary.BigEndian.PutUint16(m[2:], checksum(pseudo(from, to, unix.IPPROTO_ICMPV6, m), m))
	return datagram(from, to, unix.IPPROTO_ICMPV6, m)
}

func datagram(from, to netip.Addr, protocol byte, payload []byte) []byte {
	if from.Is4() {
		h := make([]byte, 20)
		h[0], h[8], h[9] = 0x45, 64, protocol
		binary.BigEndian.PutUint16(h[2:], uint16(20+len(payload)))
		copy(h[12:], from.AsSlice())
		copy(h[16:], to.AsSlice())
		binary.BigEndian.PutUint16(h[10:], checksum(nil, h))
		return append(h, payload...)
	}
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, protocol, 64
	binary.BigEndian.PutUint16(h[4:], uint16(len(payload)))
	copy(h[8:], from.AsSlice())
	copy(h[24:], to.AsSlice())
	return append(h, payload...)
}

// pseudo is the header that a checksum covers beside the payload. Both
// families sum to the same with the fields that are not zero.
func pseudo(from, to netip.Addr, protocol byte, payload []byte) []byte {
	b := append(from.AsSlice(), to.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	return append(b, 0, protocol)
}

func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, b := range parts {
		if len(b)%2 != 0 {
			b = append(append([]byte(nil), b...), 0)
		}
		for ; len(b) > 0; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return ^uint16(sum)
}
