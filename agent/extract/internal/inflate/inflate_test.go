package inflate

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
)

// corpus is content of every kind that a compressor makes different blocks of.
func corpus(t testing.TB) map[string][]byte {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 150_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	skewed := make([]byte, 200_000)
	for i := range skewed {
		skewed[i] = byte(random.ExpFloat64() * 6)
	}
	var sources []byte
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no sources:", err)
	}
	for range 4 {
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, b...)
		}
	}
	runs := bytes.Repeat([]byte("abcdefg"), 50_000)
	return map[string][]byte{
		"empty": nil, "one": {7}, "noise": noise, "skewed": skewed, "sources": sources,
		"zeros": make([]byte, 300_000), "runs": runs, "mixed": append(append(bytes.Clone(noise[:70_000]), sources...), skewed...),
	}
}

func deflate(t testing.TB, b []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestEveryLevelDecodesToItsContentAndLeavesTheRest(t *testing.T) {
	for name, content := range corpus(t) {
		for _, level := range []int{flate.HuffmanOnly, 0, 1, 6, 9} {
			stream := append(deflate(t, content, level), "behind"...)
			for _, wrap := range []func(io.Reader) io.Reader{
				func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader,
			} {
				in := NewInput(wrap(bytes.NewReader(stream)))
				got, err := io.ReadAll(NewReader(in))
				if err != nil || !bytes.Equal(got, content) {
					t.Fatalf("%s at %d: %d bytes and %v, want %d", name, level, len(got), err, len(content))
				}
				if taken := in.Taken(); taken != int64(len(stream)-6) {
					t.Fatalf("%s at %d: %d bytes were taken of %d", name, level, taken, len(stream)-6)
				}
				if rest, err := io.ReadAll(in); err != nil || string(rest) != "behind" {
					t.Fatalf("%s at %d: %q and %v were left", name, level, rest, err)
				}
			}
		}
	}
}

func TestAStreamCutAnywhereIsTruncated(t *testing.T) {
	in := NewInput(nil)
	d := NewReader(in)
	for name, content := range corpus(t) {
		content = content[:min(len(content), 600)]
		for _, level := range []int{0, 1, 9} {
			stream := deflate(t, content, level)
			for cut := range stream {
				in.Reset(bytes.NewReader(stream[:cut]))
				d.Reset(in)
				_, err := io.ReadAll(d)
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%s at %d cut to %d of %d: %v", name, level, cut, len(stream), err)
				}
			}
		}
	}
}

// TestADamagedStreamIsTheSameToTheStandardDecoder flips bits and compares:
// what one refuses the other must, and what both take must be the same bytes.
func TestADamagedStreamIsTheSameToTheStandardDecoder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	d, refused := NewReader(NewInput(nil)), 0
	for name, content := range corpus(t) {
		content = content[:min(len(content), 2000)]
		for _, level := range []int{0, 1, 6} {
			stream := deflate(t, content, level)
			for range 300 {
				damaged := bytes.Clone(stream)
				for range 1 + random.IntN(3) {
					damaged[random.IntN(min(len(damaged), 200))] ^= 1 << random.IntN(8)
				}
				d.Reset(NewInput(bytes.NewReader(damaged)))
				compare(t, name, damaged, d, &refused)
			}
		}
	}
	if refused < 500 {
		t.Errorf("only %d were refused", refused)
	}
}

func compare(t *testing.T, name string, stream []byte, d *Reader, refused *int) {
	t.Helper()
	const most = 1 << 20
	got, err := io.ReadAll(io.LimitReader(d, most))
	want, wantErr := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(stream)), most))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: %x: got %v after %d bytes, the standard decoder %v after %d", name, stream, err, len(got), wantErr, len(want))
	}
	if err == nil && !bytes.Equal(got, want) {
		t.Fatalf("%s: %x: other content than the standard decoder's", name, stream)
	}
	if err != nil {
		*refused++
	}
}

func BenchmarkInflate(b *testing.B) {
	content := corpus(b)["sources"]
	stream := deflate(b, content, 6)
	d := NewReader(NewInput(nil))
	buf := make([]byte, 256<<10)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		d.Reset(NewInput(bytes.NewReader(stream)))
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{d}, buf); n != int64(len(content)) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func FuzzInflate(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\xff\xff"))
	f.Add([]byte("\x03\x00"))
	f.Add(deflate(f, bytes.Repeat([]byte("hello "), 100), 9))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var refused int
		compare(t, "fuzz", stream, NewReader(NewInput(bytes.NewReader(stream))), &refused)
	})
}
