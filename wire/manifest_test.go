package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestTheManifestFormatIsGolden(t *testing.T) {
	for name, m := range map[string]*Manifest{"manifest.json": sampleManifest(), "probe.json": sampleProbe()} {
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, b, "", "  "); err != nil {
			t.Fatal(err)
		}
		indented.WriteByte('\n')
		golden(t, name, indented.Bytes())
	}
}

func TestAManifestRoundTrips(t *testing.T) {
	for _, want := range []*Manifest{sampleManifest(), sampleProbe()} {
		b, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseManifest(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

func TestAbsentListsAreWrittenAsEmptyOnes(t *testing.T) {
	for _, m := range []*Manifest{sampleManifest(), sampleProbe()} {
		m.Entries, m.Canaries = nil, nil
		if m.Probe != nil {
			m.Argv, m.Probe.Commands = nil, nil
		}
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseManifest(b); err != nil {
			t.Error(err)
		}
	}
	for _, r := range []*Result{sampleResult(), sampleProbed()} {
		r.Extraction.Notes = nil
		if r.Probe != nil {
			r.Probe.Verdicts, r.Probe.Commands = nil, nil
		}
		if _, _, err := DecodeResult(encode(t, r, ""), sampleKey); err != nil {
			t.Error(err)
		}
	}
}

func TestAManifestIsRefused(t *testing.T) {
	tests := map[string]struct {
		change func(*Manifest)
		want   string
	}{
		"no argv":             {func(m *Manifest) { m.Argv = nil }, "argv is empty"},
		"empty command":       {func(m *Manifest) { m.Argv = []string{""} }, "argv is empty"},
		"NUL in argv":         {func(m *Manifest) { m.Argv = []string{"a", "b\x00"} }, "argv[1] has a NUL byte"},
		"too many arguments":  {func(m *Manifest) { m.Argv = make([]string, ArgvCountCap+1); m.Argv[0] = "a" }, "1025 arguments"},
		"too long argv":       {func(m *Manifest) { m.Argv = []string{strings.Repeat("a", ArgvBytesCap+1)} }, "argv has"},
		"argv on a probe":     {func(m *Manifest) { m.Probe = &ProbeRequest{} }, "argv is set on a probe"},
		"network on a probe":  {func(m *Manifest) { m.Probe, m.Argv, m.Network = &ProbeRequest{}, nil, true }, "network is on"},
		"relative command":    {func(m *Manifest) { m.Probe, m.Argv = &ProbeRequest{Commands: []string{"a/b"}}, nil }, "probe command"},
		"no timeout":          {func(m *Manifest) { m.TimeoutMS = 0 }, "timeout_ms is 0"},
		"endless timeout":     {func(m *Manifest) { m.TimeoutMS = 1 << 40 }, "timeout_ms"},
		"negative fetch":      {func(m *Manifest) { m.FetchMS = -1 }, "fetch_ms is -1"},
		"endless fetch":       {func(m *Manifest) { m.FetchMS = 24*60*60*1000 + 1 }, "fetch_ms"},
		"named canary":        {func(m *Manifest) { m.Canaries = []string{"one.one.one.one:53"} }, "not an ip:port"},
		"loopback canary":     {func(m *Manifest) { m.Canaries = []string{"127.0.0.1:80"} }, "could route to"},
		"mapped loopback":     {func(m *Manifest) { m.Canaries = []string{"[::ffff:127.0.0.1]:80"} }, "could route to"},
		"port 0 canary":       {func(m *Manifest) { m.Canaries = []string{"1.1.1.1:0"} }, "port 0"},
		"too many canaries":   {func(m *Manifest) { m.Canaries = make([]string, CanaryCountCap+1) }, "17 canaries"},
		"reserved path":       {func(m *Manifest) { m.Entries[1].Path = MustRelPath("out.tar") }, "reserved"},
		"below reserved":      {func(m *Manifest) { m.Entries[1].Path = MustRelPath("in/x") }, "reserved"},
		"same path twice":     {func(m *Manifest) { m.Entries[1].Path = m.Entries[0].Path }, "a second entry"},
		"unknown kind":        {func(m *Manifest) { m.Entries[0].Kind = "link" }, `kind is "link"`},
		"inline and url":      {func(m *Manifest) { m.Entries[1].URL = "https://x/y" }, "both inline and url"},
		"inline size differs": {func(m *Manifest) { m.Entries[1].Size = 4 }, "inline has 3 bytes"},
		"negative size":       {func(m *Manifest) { m.Entries[0].Size = -1 }, "size is -1"},
		"ftp":                 {func(m *Manifest) { m.Entries[0].URL = "ftp://x/y" }, "url scheme"},
		"password in url":     {func(m *Manifest) { m.Entries[0].URL = "https://a:b@x/y" }, "user information"},
		"file url of a host":  {func(m *Manifest) { m.Entries[0].URL = "file://x/y" }, "url scheme"},
		"symbolic artifact":   {func(m *Manifest) { m.Entries[0].URL = ArtifactURL }, "url scheme"},
		"long url":            {func(m *Manifest) { m.Entries[0].URL = "https://x/" + strings.Repeat("y", URLCap) }, "url has"},
		"nested on a file":    {func(m *Manifest) { m.Entries[1].Nested = []Nested{{Member: "x"}} }, "nested is set"},
		"nested wildcard":     {func(m *Manifest) { m.Entries[0].Nested = []Nested{{Member: "*a*"}} }, "nested member"},
		"root file":           {func(m *Manifest) { m.Entries[1].Path = RelPath{} }, "a file has no path"},
		"too many entries":    {func(m *Manifest) { m.Entries = make([]Entry, EntryCountCap+1) }, "65 entries"},
		"falling sizes":       {func(m *Manifest) { m.Results = []ResultURL{{9, "https://x/y"}, {8, "https://x/y"}} }, "results[1].size"},
		"result over the cap": {func(m *Manifest) { m.Results = []ResultURL{{ResultTarCap + 1, "https://x/y"}} }, "results[0].size"},
		"no memory":           {func(m *Manifest) { m.Limits.MemoryMB = 0 }, "memory_mb is 0"},
		"no address space":    {func(m *Manifest) { m.Limits.AddressSpaceMB = 0 }, "address_space_mb is 0"},
		"no cpu":              {func(m *Manifest) { m.Limits.CPUSeconds = 0 }, "cpu_seconds is 0"},
		"no entries allowed":  {func(m *Manifest) { m.Policy.MaxEntries = 0 }, "max_entries is 0"},
		"unknown clash":       {func(m *Manifest) { m.Policy.Duplicates = "ignore" }, "duplicates is"},
		"unsafe job":          {func(m *Manifest) { m.Label.Job = "../x" }, "job is"},
		"empty scanner":       {func(m *Manifest) { m.Label.Scanner = "" }, "scanner is"},
		"upper case worker":   {func(m *Manifest) { m.Label.Worker = "W" }, "worker is"},
		"attempt 0":           {func(m *Manifest) { m.Label.Attempt = 0 }, "attempt is 0"},
		"older wire":          {func(m *Manifest) { m.Wire = 0 }, "wire version 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := sampleManifest()
			test.change(m)
			_, err := m.Encode()
			if !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Encode: %v; want an ErrManifest with %q", err, test.want)
			}
			b, _ := json.Marshal(m)
			if _, err := ParseManifest(b); !errors.Is(err, ErrManifest) {
				t.Errorf("ParseManifest: %v; want an ErrManifest", err)
			}
		})
	}
}

func TestASecretInAURLStaysOutOfTheError(t *testing.T) {
	for _, u := range []string{"https://x/%zz?X-Amz-Signature=hunter2", "gopher://x/?hunter2", "https://hunter2:hunter2@x/"} {
		m := sampleManifest()
		m.Entries[0].URL = u
		if _, err := m.Encode(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", u, err)
		}
	}
}

// hostileDocuments are what encoding/json alone would take.
func hostileDocuments(t *testing.T) map[string]string {
	b, err := sampleManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the sample has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	return map[string]string{
		"empty":              "",
		"not an object":      "[]",
		"null":               "null",
		"cut short":          good[:len(good)-1],
		"data behind":        good + "{}",
		"unknown key":        replace(`"network":`, `"shell":true,"network":`),
		"repeated key":       replace(`"network":false`, `"network":false,"network":true`),
		"key in other case":  replace(`"network":false`, `"network":false,"Network":true`),
		"repeated inside":    replace(`"attempt":1`, `"attempt":1,"attempt":2`),
		"null value":         replace(`"network":false`, `"network":null`),
		"not UTF-8":          replace("postmortem", "post\xffmortem"),
		"wrong type":         replace(`"network":false`, `"network":"no"`),
		"fraction":           replace(`"timeout_ms":60000`, `"timeout_ms":1.5`),
		"overflow":           replace(`"timeout_ms":60000`, `"timeout_ms":99999999999999999999`),
		"short seal key":     replace(`"seal_key":"ba`, `"seal_key":"`),
		"seal key no hex":    replace(`"seal_key":"ba`, `"seal_key":"zz`),
		"no wire version":    replace(`"wire":1,`, ``),
		"too deep":           strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100),
		"traversal in entry": replace(`"path":"artifact"`, `"path":"../artifact"`),
	}
}

func TestAManifestIsParsedStrictly(t *testing.T) {
	for name, document := range hostileDocuments(t) {
		t.Run(name, func(t *testing.T) {
			if m, err := ParseManifest([]byte(document)); !errors.Is(err, ErrManifest) {
				t.Errorf("got %v, %v; want an ErrManifest", m, err)
			}
		})
	}
}

func TestALaterWireVersionIsToldByItsVersion(t *testing.T) {
	document := `{"wire":2,"label":{"tenant":"x"},"seal_key":"` + strings.Repeat("ab", 32) + `","results":[]}`
	_, err := ParseManifest([]byte(document))
	var version *VersionError
	if !errors.As(err, &version) || version.Got != 2 {
		t.Fatalf("got %v, want a VersionError of 2", err)
	}
	head, err := ParseHead([]byte(document))
	if err != nil || head.Wire != 2 || head.SealKey[0] != 0xab {
		t.Fatalf("ParseHead: %+v, %v", head, err)
	}
}

func TestCapsRefuseBeforeThePayloadIsRead(t *testing.T) {
	big := make([]byte, ManifestCap+1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, manifestErr := ParseManifest(big)
	_, headErr := ParseHead(big)
	_, _, resultErr := DecodeResult(make0(ResultTarCap + 1)[:ResultTarCap+1], sampleKey)
	runtime.ReadMemStats(&after)
	for _, err := range []error{manifestErr, headErr, resultErr} {
		if err == nil || !strings.Contains(err.Error(), "want at most") {
			t.Errorf("got %v", err)
		}
	}
	// The payload of DecodeResult itself is the only large allocation.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > ResultTarCap+2<<20 {
		t.Errorf("%d bytes were allocated to refuse three payloads", grown)
	}
	m := sampleManifest()
	m.Entries[1].Inline = make([]byte, InlineCap+1)
	m.Entries[1].Size = InlineCap + 1
	if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), "inline entries have") {
		t.Errorf("inline cap: %v", err)
	}
}

func TestASealKeyStaysOutOfLogs(t *testing.T) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, sampleManifest().SealKey); strings.Contains(s, "ba7e") || strings.Contains(s, "186") {
			t.Errorf("%s prints %s", verb, s)
		}
	}
}

func TestNestedMatchesOneTrailingStar(t *testing.T) {
	for _, test := range []struct {
		member, name string
		want         bool
	}{
		{"data.tar.*", "data.tar.xz", true},
		{"data.tar.*", "data.tar", false},
		{"data.tar.gz", "data.tar.gz", true},
		{"data.tar.gz", "data.tar.gz2", false},
	} {
		if got := (Nested{Member: test.member}).Matches(test.name); got != test.want {
			t.Errorf("%q matches %q: %v", test.member, test.name, got)
		}
	}
}
