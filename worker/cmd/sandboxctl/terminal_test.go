package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal: what is written to tty comes out of master.
func terminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("not run: there are no pseudo-terminals: ", err)
	}
	n, err := unix.IoctlGetInt(int(m.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(m.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip("not run: there are no pseudo-terminals: ", err)
	}
	s, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("not run: there are no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, s
}

func TestProgressIsShownOnATerminalAfterTwoSecondsAndWipedAgain(t *testing.T) {
	rooms := testRoom(t, "tool", built(t, "tool"))
	for _, c := range []struct {
		sleep string
		shown bool
	}{{"3500ms", true}, {"1ms", false}} {
		master, tty := terminal(t)
		cmd := command(t.Context(), t, nil, "run", "--rooms", rooms, "--room", "tool", "--", "tool", "sleep", c.sleep)
		var stdout bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, tty
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = tty.Close()
		var seen bytes.Buffer
		_, _ = io.Copy(&seen, master) // ends with EIO when the last writer is gone
		if err := cmd.Wait(); err != nil || stdout.String() != "sleeping\n" {
			t.Errorf("%v, stdout %q", err, stdout.String())
		}
		text := seen.String()
		if shown := regexp.MustCompile(`running tool … [23]s`).MatchString(text); shown != c.shown {
			t.Errorf("%s: shown %v: %q", c.sleep, shown, text)
		}
		if c.shown && !strings.HasSuffix(text, "\r\x1b[K") || !c.shown && text != "" {
			t.Errorf("%s: the line is not wiped: %q", c.sleep, text)
		}
	}
}

func TestNoProgressIsShownInAPipe(t *testing.T) {
	r := tool(t, nil, "tool", "sleep", "2500ms")
	if r.status != 0 || r.stdout != "sleeping\n" || r.stderr != "" {
		t.Errorf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
	}
}

func TestWhatACommandPrintsIsEscapedOnATerminalAlone(t *testing.T) {
	rooms := testRoom(t, "tool", built(t, "tool"))
	master, tty := terminal(t)
	cmd := command(t.Context(), t, nil, "run", "--rooms", rooms, "--room", "tool", "--", "tool", "bytes")
	cmd.Stdout = tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = tty.Close()
	var seen bytes.Buffer
	_, _ = io.Copy(&seen, master)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if text := seen.String(); strings.ContainsAny(text, "\x1b\x07\x7f") || !strings.Contains(text, `\u001b`) || !strings.Contains(text, `\x9b`) {
		t.Errorf("got %q", text)
	}
}
