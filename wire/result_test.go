package wire

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func encode(t *testing.T, r *Result, stdout string, sizes ...int64) []byte {
	t.Helper()
	b, _, err := EncodeResult(r, []byte(stdout), sampleKey, sizes)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheResultFormatIsGolden(t *testing.T) {
	golden(t, "result.tar", encode(t, sampleResult(), "[{}]\n\n"))
	golden(t, "probed.tar", encode(t, sampleProbed(), ""))
}

func TestAResultRoundTrips(t *testing.T) {
	for name, want := range map[string]*Result{"exited": sampleResult(), "probed": sampleProbed()} {
		for _, stdout := range []string{"", "x", strings.Repeat("y", 512), strings.Repeat("z", 513)} {
			got, out, err := DecodeResult(encode(t, want, stdout), sampleKey)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !reflect.DeepEqual(got, want) || string(out) != stdout {
				t.Errorf("%s: got %+v with %d bytes of stdout", name, got, len(out))
			}
		}
	}
}

func TestAResultIsPaddedToTheSmallestSignedSize(t *testing.T) {
	sizes := []int64{8 << 10, 64 << 10, ResultTarCap}
	for _, test := range []struct{ stdout, index int }{{0, 0}, {8 << 10, 1}, {64 << 10, 2}, {StdoutCap, 2}} {
		b, index, err := EncodeResult(sampleResult(), make([]byte, test.stdout), sampleKey, sizes)
		if err != nil || index != test.index || int64(len(b)) != sizes[index] {
			t.Fatalf("stdout of %d: index %d, %d bytes, %v", test.stdout, index, len(b), err)
		}
		if _, out, err := DecodeResult(b, sampleKey); err != nil || len(out) != test.stdout {
			t.Fatalf("stdout of %d came back as %d bytes, %v", test.stdout, len(out), err)
		}
	}
	if _, _, err := EncodeResult(sampleResult(), make([]byte, 8<<10), sampleKey, sizes[:1]); !errors.Is(err, ErrResult) {
		t.Errorf("a result over every signed size: %v", err)
	}
}

func TestTheResultTarCapHoldsBothMembersAtTheirCaps(t *testing.T) {
	full := 2*tarBlock + ResultJSONCap + StdoutCap + 2*tarBlock
	if ResultTarCap < full {
		t.Errorf("ResultTarCap is %d, both members at their caps take %d", ResultTarCap, full)
	}
}

func TestStdoutOverItsCapIsRefused(t *testing.T) {
	if _, _, err := EncodeResult(sampleResult(), make([]byte, StdoutCap+1), sampleKey, nil); !errors.Is(err, ErrResult) {
		t.Errorf("writing: %v", err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	_ = w.WriteHeader(&tar.Header{Name: memberResult, Size: 2, Mode: 0o644})
	_, _ = w.Write([]byte("{}"))
	_ = w.WriteHeader(&tar.Header{Name: memberStdout, Size: StdoutCap + 1, Mode: 0o644})
	if _, _, err := DecodeResult(buf.Bytes(), sampleKey); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("reading: %v", err)
	}
}

func TestASealFitsItsRunAlone(t *testing.T) {
	good := encode(t, sampleResult(), "clean\n")
	other := sampleKey
	other[5] ^= 1
	if _, _, err := DecodeResult(good, other); !errors.Is(err, ErrSeal) {
		t.Errorf("another run's key: %v", err)
	}
	for name, change := range map[string][2]string{
		"stdout": {"clean\n", "dirty\n"}, "ending": {`"ending":"exited"`, `"ending":"failed"`}, "status": {`"status":1`, `"status":0`},
	} {
		forged := bytes.Replace(good, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(forged, good) {
			t.Fatalf("%s: no %q in the tar", name, change[0])
		}
		if _, _, err := DecodeResult(forged, sampleKey); !errors.Is(err, ErrSeal) {
			t.Errorf("%s changed: %v", name, err)
		}
	}
}

func TestBytesCannotMoveBetweenResultAndStdout(t *testing.T) {
	if bytes.Equal(sampleKey.seal([]byte("ab"), []byte("c")), sampleKey.seal([]byte("a"), []byte("bc"))) {
		t.Error("two splits have one seal")
	}
}

// member builds one tar member with archive/tar, however odd its header.
func member(t *testing.T, header tar.Header, data string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	header.Size = int64(len(data))
	if header.Typeflag != tar.TypeXGlobalHeader {
		header.ModTime = time.Unix(0, 0)
	}
	if err := w.WriteHeader(&header); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(data)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// base256 rewrites a header's size in the form of GNU tar for huge files.
func base256(member []byte) []byte {
	b := bytes.Clone(member)
	size := len(b) - tarBlock
	copy(b[124:136], make([]byte, 12))
	b[124], b[134], b[135] = 0x80, byte(size>>8), byte(size)
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:tarBlock] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

func TestAResultTarOfAnyOtherFormIsRefused(t *testing.T) {
	good := encode(t, sampleResult(), "out")
	document := good[tarBlock : bytes.IndexByte(good[tarBlock:], 0)+tarBlock]
	result := member(t, tar.Header{Name: memberResult, Mode: 0o644}, string(document))
	stdout := member(t, tar.Header{Name: memberStdout, Mode: 0o644}, "out")
	end := make([]byte, 2*tarBlock)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	if _, _, err := DecodeResult(join(result, stdout, end), sampleKey); err != nil {
		t.Fatalf("the test's own tar is refused: %v", err)
	}
	for name, b := range map[string][]byte{
		"nothing":         {},
		"zeros":           make([]byte, 4*tarBlock),
		"noise":           bytes.Repeat([]byte("noise "), 1000),
		"one member":      join(result, end),
		"other order":     join(stdout, result, end),
		"third member":    join(result, stdout, member(t, tar.Header{Name: "x", Mode: 0o644}, "x"), end),
		"twice":           join(result, result, stdout, end),
		"no end":          join(result, stdout),
		"half an end":     join(result, stdout, end[:tarBlock]),
		"data behind":     join(result, stdout, end, []byte("x")),
		"cut in stdout":   join(result, stdout[:tarBlock+1]),
		"cut in header":   join(result, stdout[:100]),
		"long name":       join(member(t, tar.Header{Name: strings.Repeat("n", 200), Mode: 0o644, Format: tar.FormatPAX}, "x"), result, stdout, end),
		"global header":   join(member(t, tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}, ""), result, stdout, end),
		"another name":    join(member(t, tar.Header{Name: "./" + memberResult, Mode: 0o644}, string(document)), stdout, end),
		"a directory":     join(member(t, tar.Header{Name: memberResult, Typeflag: tar.TypeDir, Mode: 0o755}, ""), stdout, end),
		"a link":          join(member(t, tar.Header{Name: memberResult, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd", Mode: 0o777}, ""), stdout, end),
		"another mode":    join(member(t, tar.Header{Name: memberResult, Mode: 0o755}, string(document)), stdout, end),
		"an owner":        join(member(t, tar.Header{Name: memberResult, Mode: 0o644, Uid: 1}, string(document)), stdout, end),
		"size in base256": join(base256(result), stdout, end),
		"not JSON":        join(member(t, tar.Header{Name: memberResult, Mode: 0o644}, "x"), stdout, end),
		"no seal":         join(member(t, tar.Header{Name: memberResult, Mode: 0o644}, `{"result":{}}`), stdout, end),
		"unknown member":  join(member(t, tar.Header{Name: memberResult, Mode: 0o644}, `{"seal":"","result":{},"x":1}`), stdout, end),
	} {
		t.Run(name, func(t *testing.T) {
			if r, _, err := DecodeResult(b, sampleKey); !errors.Is(err, ErrResult) {
				t.Errorf("got %v, %v; want an ErrResult", r, err)
			}
		})
	}
}

func TestAResultThatContradictsItselfIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Result){
		"no ending":        func(r *Result) { r.Ending = "" },
		"unknown ending":   func(r *Result) { r.Ending = "won" },
		"no status":        func(r *Result) { r.Status = nil },
		"status 256":       func(r *Result) { *r.Status = 256 },
		"status -1":        func(r *Result) { *r.Status = -1 },
		"refusal missing":  func(r *Result) { r.Ending, r.Status = EndRefused, nil },
		"refusal too many": func(r *Result) { r.Refusal = &Refusal{} },
		"failure missing":  func(r *Result) { r.Ending, r.Status = EndFailed, nil },
		"failure too many": func(r *Result) { r.Failure = &Failure{} },
		"probe missing":    func(r *Result) { r.Ending, r.Status = EndProbed, nil },
		"probe too many":   func(r *Result) { r.Probe = &ProbeResult{} },
		"long stderr":      func(r *Result) { r.StderrTail = strings.Repeat("x", 4*StderrTailCap+1) },
		"many notes":       func(r *Result) { r.Extraction.Notes = make([]Note, NoteCountCap+1) },
		"long note":        func(r *Result) { r.Extraction.Notes = []Note{{Entry: strings.Repeat("x", DetailCap+1)}} },
		"long agent":       func(r *Result) { r.Agent = strings.Repeat("x", NameCap+1) },
		"other wire":       func(r *Result) { r.Wire = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			r := sampleResult()
			change(r)
			if _, _, err := EncodeResult(r, nil, sampleKey, nil); !errors.Is(err, ErrResult) {
				t.Errorf("writing: %v", err)
			}
			if _, _, err := DecodeResult(sealAnyway(t, r), sampleKey); !errors.Is(err, ErrResult) {
				t.Errorf("reading: %v", err)
			}
		})
	}
}

// sealAnyway writes what an agent gone wrong would: a fitting seal over a
// result that breaks the rules.
func sealAnyway(t *testing.T, r *Result) []byte {
	t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(envelope{hex.EncodeToString(sampleKey.seal(body, nil)), body})
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join([][]byte{
		member(t, tar.Header{Name: memberResult, Mode: 0o644}, string(document)),
		member(t, tar.Header{Name: memberStdout, Mode: 0o644}, ""),
		make([]byte, 2*tarBlock),
	}, nil)
}

func TestAnAgentOfAnotherWireVersionIsToldByItsVersion(t *testing.T) {
	r := sampleResult()
	r.Wire = 7
	_, _, err := DecodeResult(sealAnyway(t, r), sampleKey)
	var version *VersionError
	if !errors.As(err, &version) || version.Got != 7 {
		t.Fatalf("got %v, want a VersionError of 7", err)
	}
}
