package main

import (
	"encoding/binary"
	"strconv"
)

// put and get move numbers in this machine's byte order, as netlink has them.
func put(b []byte, v uint32) { binary.NativeEndian.PutUint32(b, v) }
func get(b []byte) uint32    { return binary.NativeEndian.Uint32(b) }
func itoa(n int) string      { return strconv.Itoa(n) }
func atoi(s string) int      { n, _ := strconv.Atoi(s); return n }
func fill(n int, c byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = c
	}
	return b
}
