package identity

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestAnIDStandsInEveryLabel(t *testing.T) {
	for _, id := range []string{New().ID(), take(t, place(t)).ID()} {
		if err := (wire.Label{Worker: id, Job: "job", Scanner: "x", Attempt: 1}).Validate(); err != nil || len(id) > 32 || !validID(id) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestAKilledWorkersIDIsTheNextOnesAndALivingOnesIsNot(t *testing.T) {
	p := place(t)
	first, second := take(t, p), take(t, p)
	if first.ID() == second.ID() {
		t.Fatalf("two living workers have the id %s", first.ID())
	}
	killed(first)
	next := take(t, p)
	if next.ID() != first.ID() {
		t.Errorf("the next id is %s, want the killed worker's %s", next.ID(), first.ID())
	}
	if got := settled(t, next); !slices.Equal(got, []string{first.ID()}) {
		t.Errorf("swept for %q", got)
	}
	next.Close(false)
	second.Close(false)
	if left := files(t, p); len(left) != 0 {
		t.Errorf("workers that ended well left %q", left)
	}
	if again := take(t, p); again.ID() == first.ID() || again.ID() == second.ID() {
		t.Errorf("%s was given up, and came again", again.ID())
	}
}

func TestAStartSweepsForAllKilledWorkersAndForgetsThem(t *testing.T) {
	p := place(t)
	a, b, c := take(t, p), take(t, p), take(t, p)
	dead := []string{a.ID(), b.ID(), c.ID()}
	for _, w := range []*Worker{a, b, c} {
		killed(w)
	}
	w := take(t, p)
	got := settled(t, w)
	slices.Sort(dead)
	if slices.Sort(got); !slices.Equal(got, dead) {
		t.Errorf("swept for %q, want %q", got, dead)
	}
	if left := files(t, p); len(left) != 1 || !strings.HasSuffix(left[0], w.ID()) {
		t.Errorf("left %q, want the living worker's alone", left)
	}
}

// What could not be swept, or may have been left, is the next start's.
func TestAnIDThatOwesASweepStays(t *testing.T) {
	p := place(t)
	a, b := take(t, p), take(t, p)
	killed(a)
	killed(b)
	away := errors.New("the engine is away")
	for range 2 {
		w, calls := take(t, p), 0
		if err := w.Settle(func(string) error { calls++; return away }); !errors.Is(err, away) || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
		w.Close(false)
		if left := files(t, p); len(left) != 2 {
			t.Fatalf("left %q, want both", left)
		}
	}
	w, calls := take(t, p), 0
	if err := w.Settle(func(string) error {
		if calls++; calls == 2 {
			return away
		}
		return nil
	}); !errors.Is(err, away) {
		t.Error(err)
	}
	w.Close(false)
	if left := files(t, p); len(left) != 1 || strings.HasSuffix(left[0], w.ID()) {
		t.Errorf("left %q, want the one that was not swept", left)
	}
	unclean := take(t, p)
	settled(t, unclean)
	unclean.Close(true)
	if again := take(t, p); again.ID() != unclean.ID() {
		t.Errorf("%s, want %s", again.ID(), unclean.ID())
	}
}

// A new worker whose sweep fails has left nothing.
func TestANewIDOwesNothing(t *testing.T) {
	p := place(t)
	w := take(t, p)
	if err := w.Settle(func(string) error { return errors.ErrUnsupported }); err == nil {
		t.Error("no error")
	}
	w.Close(false)
	if left := files(t, p); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	n := New()
	if got := settled(t, n); !slices.Equal(got, []string{n.ID()}) {
		t.Errorf("swept for %q", got)
	}
	n.Close(true)
}
