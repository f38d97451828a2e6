package main

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

// Offsets in struct seccomp_data, whose arguments are little-endian on both
// architectures: the low half of an argument comes first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// The few instructions of classic BPF that the prologue is made of.
const (
	opLoad   = 0x20 // A = seccomp_data at k
	opEqual  = 0x15 // A == k
	opAbove  = 0x25 // A > k
	opAtOver = 0x35 // A >= k
	opReturn = 0x06

	retErrno = 0x00050000
)

type instruction struct {
	op     uint16
	jt, jf uint8
	k      uint32
}

// prologue says what libseccomp can't: other architectures first, ranges of numbers, calls
// too new for it, and conditions of the form "any value but these". It returns what is
// left for libseccomp.
func prologue(arch seccomp.Arch, rules []seccomp.Rule) ([]byte, []call, error) {
	program := []instruction{
		{op: opLoad, k: offArch},
		{op: opEqual, jt: 1, k: arch.Audit},
		refuse(seccomp.ENOSYS),
		{op: opLoad, k: offNumber},
	}
	program = append(program, unknownNumbers(arch)...)
	var exceptions, rest []call
	for _, c := range calls(arch, rules) {
		switch {
		case c.when != nil && c.when.Test == seccomp.NoneOf:
			exceptions = append(exceptions, c)
		case c.number > libseccompTop && c.when != nil:
			return nil, nil, fmt.Errorf("%s: the prologue has no such condition", c.name)
		case c.number > libseccompTop:
			program = append(program, instruction{op: opEqual, jf: 1, k: c.number}, refuse(c.answer))
		default:
			rest = append(rest, c)
		}
	}
	for _, c := range exceptions {
		program = append(program, except(c)...)
	}
	var b []byte
	for _, i := range program {
		b = binary.LittleEndian.AppendUint16(b, i.op)
		b = append(b, i.jt, i.jf)
		b = binary.LittleEndian.AppendUint32(b, i.k)
	}
	return b, rest, nil
}

func refuse(a seccomp.Answer) instruction {
	return instruction{op: opReturn, k: retErrno | uint32(a)}
}

// unknownNumbers refuses, with the number in A, every number above the highest known
// (x32's, which have bit 30 set, among them) and every range that no call ever had.
func unknownNumbers(arch seccomp.Arch) []instruction {
	program := []instruction{{op: opAbove, jf: 1, k: arch.Top()}, refuse(seccomp.ENOSYS)}
	for _, hole := range holes(arch) {
		program = append(program,
			instruction{op: opAtOver, jf: 2, k: hole[0]},
			instruction{op: opAbove, jt: 1, k: hole[1]},
			refuse(seccomp.ENOSYS))
	}
	return program
}

// holes returns the ranges of numbers below the highest that no call has,
// both ends included.
func holes(arch seccomp.Arch) [][2]uint32 {
	known := make([]uint32, 0, len(arch.Numbers))
	for _, n := range arch.Numbers {
		known = append(known, n)
	}
	slices.Sort(known)
	var found [][2]uint32
	next := uint32(0)
	for _, n := range known {
		if n > next {
			found = append(found, [2]uint32{next, n - 1})
		}
		next = n + 1
	}
	return found
}

// except refuses a call unless the low half of its argument is one of the
// condition's values. It loads what it looks at and leaves A as it falls.
func except(c call) []instruction {
	values := c.when.Values
	program := []instruction{
		{op: opLoad, k: offNumber},
		{op: opEqual, jf: uint8(len(values) + 2), k: c.number},
		{op: opLoad, k: offArgs + 8*uint32(c.when.Arg)},
	}
	for i, v := range values {
		program = append(program, instruction{op: opEqual, jt: uint8(len(values) - i), k: v.Value})
	}
	return append(program, refuse(c.answer))
}
