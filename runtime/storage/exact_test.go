package storage_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

func TestAReaderOfTheAnnouncedLengthIsReadWhole(t *testing.T) {
	for _, wrap := range []func(io.Reader) io.Reader{
		func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader,
	} {
		for _, s := range []string{"", "x", strings.Repeat("content ", 10_000)} {
			got, err := io.ReadAll(storage.Exactly(wrap(strings.NewReader(s)), int64(len(s))))
			if err != nil || string(got) != s {
				t.Errorf("%d bytes: got %d bytes, %v", len(s), len(got), err)
			}
		}
	}
}

func TestAReaderOfAnotherLengthNeverYieldsItsLastBytes(t *testing.T) {
	for _, wrap := range []func(io.Reader) io.Reader{
		func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
	} {
		for announced, want := range map[int64]storage.SizeError{
			0: {Want: 0, Got: 1}, 3: {Want: 3, Got: 4}, 5: {Want: 5, Got: 4}, 1 << 40: {Want: 1 << 40, Got: 4},
		} {
			var got bytes.Buffer
			_, err := io.Copy(&got, storage.Exactly(wrap(strings.NewReader("four")), announced))
			size, ok := errors.AsType[*storage.SizeError](err)
			if !ok || *size != want || !errors.Is(err, storage.ErrSize) {
				t.Errorf("announced %d: %v", announced, err)
			}
			if int64(got.Len()) >= announced && announced > 0 {
				t.Errorf("announced %d: %q was handed out", announced, got.String())
			}
		}
	}
}

func TestAReadersOwnErrorIsNotASize(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, size := range []int64{0, 4, 9} {
		r := io.MultiReader(strings.NewReader("four"), iotest.ErrReader(broken))
		if size == 0 {
			r = iotest.ErrReader(broken)
		}
		if _, err := io.ReadAll(storage.Exactly(r, size)); !errors.Is(err, broken) || errors.Is(err, storage.ErrSize) {
			t.Errorf("%d: got %v", size, err)
		}
	}
}
