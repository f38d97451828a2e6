package main

import "testing"

func TestTheURLsAreCopiedAndWipedWhereTheyStood(t *testing.T) {
	// As the runtime's strings lie over argv: in memory that can be written.
	in, out := string([]byte("https://h/in?sig")), string([]byte("https://h/out?sig"))
	argv := []string{"agent", "--in", in, "--out", out}
	gotIn, gotOut, ok := arguments(argv)
	if !ok || gotIn != "https://h/in?sig" || gotOut != "https://h/out?sig" {
		t.Fatalf("%q %q %v", gotIn, gotOut, ok)
	}
	for _, s := range []string{argv[2], argv[4]} {
		for i := range len(s) {
			if s[i] != 0 {
				t.Fatalf("%q is left", s)
			}
		}
	}
}
