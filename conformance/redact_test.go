package conformance

import (
	"strings"
	"testing"
)

func TestTheQueryOfAURLIsNeverInEvidence(t *testing.T) {
	const signed = `GET "https://s3.example/bucket/key?X-Amz-Signature=abcdef&X-Amz-Expires=60" failed`
	got := redact(signed)
	if strings.Contains(got, "abcdef") || !strings.Contains(got, "https://s3.example/bucket/key?redacted") {
		t.Errorf("redacted to %q", got)
	}
	if plain := "see https://example.org/docs for more"; redact(plain) != plain {
		t.Errorf("changed %q", plain)
	}
}

func TestTheFindingsOfAReportHaveNoOrder(t *testing.T) {
	if a, b := inOrder([]byte(`[{"a":1},{"b":2}]`)), inOrder([]byte("[{\"b\":2}, {\"a\":1}]")); a != b {
		t.Errorf("%q and %q differ", a, b)
	}
	if inOrder([]byte(`[{"a":1}]`)) == inOrder([]byte(`[{"a": 1}]`)) {
		t.Error("findings that differ in a byte are taken for equal")
	}
	if inOrder([]byte("no JSON")) != "no JSON" {
		t.Error("an output that is no list is changed")
	}
}
