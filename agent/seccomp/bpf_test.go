package seccomp_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

// instruction is one struct sock_filter.
type instruction struct {
	op     uint16
	jt, jf uint8
	k      uint32
}

// data is one struct seccomp_data.
type data struct {
	number, arch uint32
	args         [6]uint64
}

func (d data) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(nil, d.number)
	b = binary.LittleEndian.AppendUint32(b, d.arch)
	b = binary.LittleEndian.AppendUint64(b, 0xfeedface) // the instruction pointer
	for _, a := range d.args {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	return b
}

// committed reads an architecture's program as it stands in the package.
func committed(t testing.TB, arch string) []instruction {
	t.Helper()
	b, err := os.ReadFile("filter_" + arch + ".bpf")
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, b)
}

func decode(t testing.TB, b []byte) []instruction {
	t.Helper()
	if len(b) == 0 || len(b)%8 != 0 || len(b)/8 > 4096 {
		t.Fatalf("a program of %d bytes", len(b))
	}
	var program []instruction
	for ; len(b) > 0; b = b[8:] {
		program = append(program, instruction{
			op: binary.LittleEndian.Uint16(b), jt: b[2], jf: b[3], k: binary.LittleEndian.Uint32(b[4:]),
		})
	}
	return program
}

// interpret runs a program over one call as the kernel would and returns the
// action. It knows the instructions of a seccomp filter that branch, load,
// mask and return; any other, a load out of bounds or a jump past the end is an error.
func interpret(program []instruction, d data) (uint32, error) {
	memory := d.bytes()
	var a uint32
	for pc := 0; pc < len(program); pc++ {
		i := program[pc]
		var taken bool
		switch i.op {
		case 0x20: // ld [k]
			if i.k%4 != 0 || int(i.k)+4 > len(memory) {
				return 0, fmt.Errorf("instruction %d loads from %d", pc, i.k)
			}
			a = binary.LittleEndian.Uint32(memory[i.k:])
			continue
		case 0x54: // and #k
			a &= i.k
			continue
		case 0x05: // ja
			pc += int(i.k)
			continue
		case 0x06: // ret #k
			return i.k, nil
		case 0x15:
			taken = a == i.k
		case 0x25:
			taken = a > i.k
		case 0x35:
			taken = a >= i.k
		case 0x45:
			taken = a&i.k != 0
		default:
			return 0, fmt.Errorf("instruction %d has the opcode %#x", pc, i.op)
		}
		if taken {
			pc += int(i.jt)
		} else {
			pc += int(i.jf)
		}
	}
	return 0, fmt.Errorf("the program runs off its end")
}

const (
	allow    = 0x7fff0000
	retErrno = 0x00050000
)

// expected is what the table says about one call, worked out from the rules
// and from nothing that the generator made.
func expected(arch seccomp.Arch, rules []seccomp.Rule, d data) uint32 {
	if d.arch != arch.Audit || d.number > arch.Top() {
		return retErrno | uint32(seccomp.ENOSYS)
	}
	name, known := "", false
	for n, number := range arch.Numbers {
		if number == d.number {
			name, known = n, true
		}
	}
	if !known {
		return retErrno | uint32(seccomp.ENOSYS)
	}
	for _, r := range rules {
		for _, c := range r.Calls {
			if c == name && (r.When == nil || r.When.Holds(d.args[r.When.Arg])) {
				return retErrno | uint32(r.Answer)
			}
		}
	}
	return allow
}
