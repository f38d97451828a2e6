package wire

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s changed, and with it the wire format:\n got %s\nwant %s\nA change of the format is a new Version; then run the test with -update.", path, got, want)
	}
}

// sampleKey is fixed so that golden files are.
var sampleKey = SealKey{0: 0xba, 1: 0x7e, 31: 0x01}

func sampleManifest() *Manifest {
	return &Manifest{
		Wire:  Version,
		Label: Label{Worker: "w1", Job: "j42", Scanner: "postmortem", Attempt: 1},
		Entries: []Entry{
			{
				Path: MustRelPath("artifact"), Kind: Archive, URL: "file:///work/in/artifact", Size: 123456,
				Nested: []Nested{{Member: "data.tar.*", Into: MustRelPath("data")}},
			},
			{Path: MustRelPath("project/package-lock.json"), Kind: File, Inline: []byte("{}\n"), Size: 3},
		},
		Policy:    DefaultExtractPolicy(),
		Argv:      []string{"postmortem", "scan", "/work/artifact"},
		Limits:    DefaultLimits(),
		TimeoutMS: 60_000, FetchMS: 30_000,
		Canaries: []string{"192.0.2.7:8080", "1.1.1.1:53"},
		SealKey:  sampleKey,
	}
}

func sampleProbe() *Manifest {
	m := sampleManifest()
	m.Entries, m.Argv = []Entry{}, []string{}
	m.Probe = &ProbeRequest{Commands: []string{"postmortem", "/usr/bin/extra"}, MemoryWall: true}
	m.Results = []ResultURL{
		{Size: 64 << 10, URL: "https://storage.example/b/out.tar?X-Amz-Signature=1"},
		{Size: ResultTarCap, URL: "https://storage.example/b/out.tar?X-Amz-Signature=2"},
	}
	return m
}

func sampleResult() *Result {
	status := 1
	return &Result{
		Wire: Version, Agent: "1.3.0", Ending: EndExited, Status: &status,
		StdoutBytes: 6, StderrBytes: 5, StderrTail: "warn\n",
		Extraction: Extraction{
			Archives: 1, Entries: 3, Files: 2, Directories: 1, Bytes: 77, Renamed: 1,
			Notes: []Note{{Entry: "a/b", Rule: "duplicate-name", Action: "renamed", Detail: "kept as a/b~2"}},
		},
		Usage:  Usage{UserMS: 12, SystemMS: 3, MaxRSSKiB: 4096},
		Phases: Phases{FetchMS: 1, ExtractMS: 2, RunMS: 30},
	}
}

func sampleProbed() *Result {
	r := sampleResult()
	r.Status, r.Ending = nil, EndProbed
	r.Extraction = Extraction{Notes: []Note{}}
	r.Probe = &ProbeResult{
		Verdicts: []Verdict{{ID: AssertNetwork, Outcome: Pass, Detail: "1.1.1.1:53: network is unreachable"}},
		Commands: []CommandReport{{Command: "postmortem", Path: "/usr/bin/postmortem", SHA256: string(make0(64)), Size: 9}},
		UID:      65532,
	}
	return r
}

func make0(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0'
	}
	return b
}
