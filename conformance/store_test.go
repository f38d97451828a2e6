package conformance_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/memory"
)

func TestAStoreLiesAboutResultsAloneAndOnlyWhileItIsTold(t *testing.T) {
	ctx := t.Context()
	s := conformance.NewStore(memory.New(), "sandbox/")
	for _, key := range []string{"sandbox/w/job/s/1/out.tar", "sandbox/w/job/s/1/manifest.json", "sandbox/w/other/s/1/out.tar"} {
		if err := s.Put(ctx, key, bytes.NewReader([]byte("the truth")), 9); err != nil {
			t.Fatal(err)
		}
	}
	read := func(key string) string {
		r, _, err := s.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, _ := io.ReadAll(r)
		o, err := s.Head(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(string(b), o.Size)
	}
	s.Lie("/job/", conformance.Lie{Content: []byte("a lie"), Size: 7})
	for key, want := range map[string]string{
		"sandbox/w/job/s/1/out.tar": "a lie7", "sandbox/w/job/s/1/manifest.json": "the truth9", "sandbox/w/other/s/1/out.tar": "the truth9",
	} {
		if got := read(key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	s.Truth()
	if got := read("sandbox/w/job/s/1/out.tar"); got != "the truth9" {
		t.Errorf("after the lies it is %s", got)
	}
	if err := s.Delete(ctx, "sandbox/w/job/s/1/out.tar"); err != nil {
		t.Fatal(err)
	}
	want := "[{put sandbox/w/job/s/1/out.tar} {get sandbox/w/job/s/1/out.tar} {head sandbox/w/job/s/1/out.tar} {get sandbox/w/job/s/1/out.tar} {head sandbox/w/job/s/1/out.tar} {delete sandbox/w/job/s/1/out.tar}]"
	if got := fmt.Sprint(s.Calls("job/s/1/out.tar")); got != want {
		t.Errorf("the calls are %s", got)
	}
}
