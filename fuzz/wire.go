package fuzz

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// manifest parses data as a manifest and reports whether it is one. What is
// accepted must be valid, and must survive being written and read again.
func manifest(data []byte) bool {
	if _, err := wire.ParseHead(data); err != nil && !errors.Is(err, wire.ErrManifest) {
		panic(fmt.Sprintf("ParseHead failed with %v, which is no ErrManifest", err))
	}
	m, err := wire.ParseManifest(data)
	if err != nil {
		if !errors.Is(err, wire.ErrManifest) {
			panic(fmt.Sprintf("ParseManifest failed with %v, which is no ErrManifest", err))
		}
		return false
	}
	b, err := m.Encode()
	if err != nil {
		panic(fmt.Sprintf("an accepted manifest can't be written: %v", err))
	}
	again, err := wire.ParseManifest(b)
	if err != nil {
		panic(fmt.Sprintf("a written manifest can't be read: %v", err))
	}
	if c, err := again.Encode(); err != nil || !bytes.Equal(b, c) {
		panic(fmt.Sprintf("a manifest changed on its way:\n%s\n%s\n%v", b, c, err))
	}
	return true
}

// fuzzKey seals the results that the fuzzer makes.
var fuzzKey = wire.SealKey{1, 2, 3}

// result reads data twice: as a result tar as it stands, and as the result
// document of a tar that the fuzzer seals, since nothing unsealed gets past
// the first check.
func result(data []byte) bool {
	if r, _, err := wire.DecodeResult(data, fuzzKey); err == nil {
		panic(fmt.Sprintf("a result without a seal was taken: %+v", r))
	} else if !errors.Is(err, wire.ErrResult) {
		panic(fmt.Sprintf("DecodeResult failed with %v, which is no ErrResult", err))
	}
	stdout := []byte("stdout")
	r, out, err := wire.DecodeResult(sealed(data, stdout), fuzzKey)
	if err != nil {
		if !errors.Is(err, wire.ErrResult) {
			panic(fmt.Sprintf("DecodeResult failed with %v, which is no ErrResult", err))
		}
		return false
	}
	b, _, err := wire.EncodeResult(r, out, fuzzKey, nil)
	if err != nil {
		panic(fmt.Sprintf("an accepted result can't be written: %v", err))
	}
	again, out2, err := wire.DecodeResult(b, fuzzKey)
	if err != nil || !bytes.Equal(out, out2) || !sameResult(r, again) {
		panic(fmt.Sprintf("a result changed on its way: %+v, %+v, %v", r, again, err))
	}
	return true
}

func sameResult(a, b *wire.Result) bool {
	for _, r := range []*wire.Result{a, b} {
		if len(r.Extraction.Notes) == 0 {
			r.Extraction.Notes = nil
		}
		if r.Probe != nil && len(r.Probe.Verdicts) == 0 {
			r.Probe.Verdicts = nil
		}
		if r.Probe != nil && len(r.Probe.Commands) == 0 {
			r.Probe.Commands = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// sealed builds a result tar by hand around document, which may be anything.
func sealed(document, stdout []byte) []byte {
	mac := hmac.New(sha256.New, fuzzKey[:])
	mac.Write([]byte("batlehub-sandbox result v1\x00"))
	for _, part := range [][]byte{document, stdout} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	envelope := fmt.Appendf(nil, `{"seal":%q,"result":%s}`, hex.EncodeToString(mac.Sum(nil)), document)
	var b bytes.Buffer
	for _, m := range []struct {
		name string
		data []byte
	}{{"result.json", envelope}, {"stdout", stdout}} {
		b.Write(tarHeader(m.name, len(m.data)))
		b.Write(m.data)
		b.Write(make([]byte, -len(m.data)&511))
	}
	b.Write(make([]byte, 1024))
	return b.Bytes()
}

// tarHeader is a ustar header of a regular file.
func tarHeader(name string, size int) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000644\x000000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00        0", size, 0))
	copy(h[257:], "ustar\x0000")
	copy(h[329:], "0000000\x000000000\x00")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// relPath parses data as a relative path. What is accepted must stay below a
// root whoever joins it.
func relPath(data []byte) bool {
	s := string(data)
	p, err := wire.ParseRelPath(s)
	if err != nil {
		if !errors.Is(err, wire.ErrPath) {
			panic(fmt.Sprintf("ParseRelPath failed with %v, which is no ErrPath", err))
		}
		return false
	}
	switch {
	case p.String() != s:
		panic(fmt.Sprintf("%q became %q", s, p))
	case !fs.ValidPath(s) || !filepath.IsLocal(s):
		panic(fmt.Sprintf("%q is no local path", s))
	case path.Clean(s) != s || strings.ContainsAny(s, "\\\x00\n"):
		panic(fmt.Sprintf("%q is not clean", s))
	case s != "." && !strings.HasPrefix(path.Join("/root", s), "/root/"):
		panic(fmt.Sprintf("%q leaves its root", s))
	}
	return true
}
