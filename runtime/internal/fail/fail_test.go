package fail

import (
	"errors"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func TestWhatARunLeftIsSaidOnceAndInOneLine(t *testing.T) {
	gone := errors.New("the server is gone")
	left := &sandbox.Error{
		Kind: sandbox.Crashed, Code: sandbox.CodeStorage, Runtime: "oci", Run: "j-s-1", Detail: "the bundle may be left", Hint: "look there", Err: gone,
	}
	for _, c := range []struct {
		e    *sandbox.Error
		err  error
		want string
	}{
		{nil, gone, "sandbox : crashed (internal): cleaning up: the server is gone"},
		{nil, left, "sandbox oci: run j-s-1: crashed (storage): the bundle may be left: the server is gone; look there"},
		{&sandbox.Error{Kind: sandbox.RunTimeout, Runtime: "oci"}, gone, "sandbox oci: run timeout: the server is gone"},
		{&sandbox.Error{Kind: sandbox.RunTimeout, Runtime: "oci"}, left, "sandbox oci: run timeout: the bundle may be left: the server is gone"},
		{
			&sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeStorage, Runtime: "oci", Err: errors.New("no answer")}, left,
			"sandbox oci: crashed (storage): no answer; the bundle may be left: the server is gone",
		},
	} {
		if e := Left(c.e, c.err); e.Error() != c.want || !errors.Is(e, gone) {
			t.Errorf("got  %v\nwant %s", e, c.want)
		}
	}
	if e := Left(nil, nil); e != nil {
		t.Errorf("nothing is left: %v", e)
	}
}
