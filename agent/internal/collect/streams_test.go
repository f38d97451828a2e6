package collect_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/collect"
)

func streams(t *testing.T, limit, tail int, over func()) *collect.Streams {
	t.Helper()
	s, err := collect.Open(limit, tail, over)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStdoutIsKeptUpToItsCapAndCountedBeyond(t *testing.T) {
	for _, size := range []int{0, 1, 99, 100, 101, 100_000} {
		over := 0
		s := streams(t, 100, 10, func() { over++ })
		if _, err := s.Stdout.Write(bytes.Repeat([]byte("x"), size)); err != nil {
			t.Fatal(err)
		}
		o := s.Drain()
		if o.StdoutBytes != int64(size) || o.Over != (size > 100) {
			t.Errorf("%d bytes: counted %d, over %v", size, o.StdoutBytes, o.Over)
		}
		if size <= 100 && len(o.Stdout) != size || size > 100 && (over != 1 || len(o.Stdout) != 0) {
			t.Errorf("%d bytes: kept %d, told %d times", size, len(o.Stdout), over)
		}
	}
}

func TestTheTailOfStderrIsItsEndAsUTF8(t *testing.T) {
	s := streams(t, 1, 10, nil)
	for _, piece := range []string{"the beginning ", strings.Repeat("-", 300), "12", "3456", "789", "é"} {
		if _, err := s.Stderr.WriteString(piece); err != nil {
			t.Fatal(err)
		}
	}
	if o := s.Drain(); o.Stderr != "23456789é" || o.StderrBytes != 14+300+9+2 {
		t.Errorf("tail %q, %d bytes", o.Stderr, o.StderrBytes)
	}
	s = streams(t, 1, 10, nil)
	if _, err := s.Stderr.WriteString("ééééé é"); err != nil {
		t.Fatal(err)
	}
	if o := s.Drain(); !utf8.ValidString(o.Stderr) || !strings.HasSuffix(o.Stderr, "ééé é") {
		t.Errorf("tail %q", o.Stderr)
	}
}

func TestAPipeThatSomebodyStillHoldsIsNotWaitedFor(t *testing.T) {
	s := streams(t, 100, 10, nil)
	held, err := unix.Dup(int(s.Stdout.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(held)
	if _, err := unix.Write(held, []byte("said")); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	o := s.Drain()
	if string(o.Stdout) != "said" || time.Since(began) > 30*time.Second {
		t.Errorf("stdout %q after %v", o.Stdout, time.Since(began))
	}
}
