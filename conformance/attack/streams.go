package attack

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
)

func gz(content []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(content)
	_ = w.Close()
	return b.Bytes()
}

// zstdStored is a zstd frame whose blocks are stored as they are.
func zstdStored(content []byte) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50}
	for len(content) > 0 {
		n := min(len(content), 100_000)
		b = zstdBlock(b, 0, n, n == len(content))
		b = append(b, content[:n]...)
		content = content[n:]
	}
	return b
}

// zstdBomb stores head and then zeros, four bytes for each 128 KiB of them.
func zstdBomb(head []byte, zeros int) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50}
	b = append(zstdBlock(b, 0, len(head), false), head...)
	for ; zeros > 0; zeros -= 128 << 10 {
		b = append(zstdBlock(b, 1, 128<<10, zeros <= 128<<10), 0)
	}
	return b
}

func zstdBlock(b []byte, kind, size int, last bool) []byte {
	v := uint32(size)<<3 | uint32(kind)<<1
	if last {
		v |= 1
	}
	return append(b, byte(v), byte(v>>8), byte(v>>16))
}

// zstdWindow is a frame that asks for a window of 2 GiB.
func zstdWindow() []byte {
	b := zstdStored(tarOf(file("package/a.txt", "hello\n")))
	b[5] = (31 - 10) << 3
	return b
}

// What no writer at hand makes is kept as text: a tar with the file
// package/a.txt ("hello"), under bzip2, under xz, and under an xz whose
// dictionary is 1.5 GiB; and a tar with 64 MiB of zeros under bzip2.
const (
	goodBzip2 = "QlpoOTFBWSZTWWIXeHEAAIF7kMmQAERAAe8ACABqzN5ABAAACCAAdQ0kNAA008oHpG1BJSMmgBoAGgRPmVtlQge5ISL23sIRqoegQwXUgabQchCPg4FSDTPI" +
		"RrqcEkqaeLQ0o+jgIFsM5vDNNoGRIPxdyRThQkGIXeHE"
	goodXZ = "/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj4Cf/AHNdADgYSJnNF3UkZoz4cD/7tobx/aEcJPnUjTwwZD3avXwG2gkVH0LZSASSUSdE6+MgoYxkG7XjMzMVEYfv" +
		"49Qnt8IMi4RRHUqGJVASFqIqjQpdgIitEM/xTWMm/CDtG755kZpuSTfqxaUvHmSld93itL3VUgAAAEVC9A5UGLjCAAGPAYBQAADrwzaQscRn+wIAAAAABFla"
	windowXZ = "/Td6WFoAAATm1rRGAgAhASUAAAA7eHtB4Cf/AHNdADgYSJnNF3UkZoz4cD/7tobx/aEcJPnUjTwwZD3avXwG2gkVH0LZSASSUSdE6+MgoYxkG7XjMzMVEYfv" +
		"49Qnt8IMi4RRHUqGJVASFqIqjQpdgIitEM/xTWMm/CDtG755kZpuSTfqxaUvHmSld93itL3VUgAAAEVC9A5UGLjCAAGPAYBQAADrwzaQscRn+wIAAAAABFla"
	bombBzip2 = "QlpoOTFBWSZTWfIC+BQFfkJ7gMyAAEBAAHWAAAhiAJ4QAAggAHBQAYjTTRoIpTI1MamnqM2qdnfqsgIAqqJqCoAqqJekRaPN7bKIAqqJAw86ImKXg3gK9QdY" +
		"1pjbSDE+3J5e2azBmZuggCqon8xQVkmU1lMLcDQAKKEwAjAAAEAAAggADDMBSmmiCQmwkEhPF3JFOFCQqCgw+Q=="
)

func decoded(text string) []byte {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}
