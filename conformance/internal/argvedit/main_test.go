package main

import (
	"slices"
	"testing"
)

func TestAnEditReplacesOneRunOfArguments(t *testing.T) {
	args := []string{"--ro-bind", "/room", "/", "--proc", "/proc", "--"}
	got, err := edit{Find: []string{"--ro-bind", "*", "/"}, With: []string{"--bind", "$1", "/"}}.apply(args)
	if want := []string{"--bind", "/room", "/", "--proc", "/proc", "--"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAPatternMayBeTheBeginningOfAnArgument(t *testing.T) {
	args := []string{"--tmpfs", "/dev/mqueue:ro", "--tmpfs", "/work:rw,size=5m"}
	got, err := edit{Find: []string{"--tmpfs", "/work:*"}, With: []string{"--tmpfs", "/work:rw"}}.apply(args)
	if want := []string{"--tmpfs", "/dev/mqueue:ro", "--tmpfs", "/work:rw"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAnEditThatDoesNotFitIsAnError(t *testing.T) {
	if got, err := (edit{Find: []string{"--uid", "*"}}).apply([]string{"--gid", "1"}); err == nil {
		t.Errorf("got %q", got)
	}
	if got, err := (edit{Find: []string{"--uid", "*"}}).apply([]string{"--uid"}); err == nil {
		t.Errorf("got %q", got)
	}
}
