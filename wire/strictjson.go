package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// jsonDepthCap is deeper than any document of ours and shallow enough that
// nesting costs nothing.
const jsonDepthCap = 16

// decodeStrict reads one JSON document into v. Beyond encoding/json it refuses
// what that package lets pass and two readers could read differently: repeated
// keys, keys in another letter case, unknown keys, invalid UTF-8, data after
// the document, and null where a value belongs.
func decodeStrict(b []byte, v any) error {
	if err := checkShape(b); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func checkShape(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("the document is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := checkValue(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("data after the document")
	}
	return nil
}

func checkValue(d *json.Decoder, depth int) error {
	if depth > jsonDepthCap {
		return fmt.Errorf("nested deeper than %d", jsonDepthCap)
	}
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('{'):
		err = checkObject(d, depth)
	case json.Delim('['):
		for d.More() && err == nil {
			err = checkValue(d, depth+1)
		}
	case nil:
		return errors.New("a null value")
	default:
		return nil
	}
	if err != nil {
		return err
	}
	_, err = d.Token()
	return err
}

func checkObject(d *json.Decoder, depth int) error {
	seen := make(map[string]bool)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if !plainKey(key) {
			return fmt.Errorf("key %.32q, want a-z, 0-9 and _ only", key)
		}
		if seen[key] {
			return fmt.Errorf("key %q appears twice", key)
		}
		seen[key] = true
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// plainKey reports whether encoding/json can match key to a field in one way
// only; it folds letter case.
func plainKey(key string) bool {
	for i := range len(key) {
		if c := key[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return key != "" && len(key) <= NameCap
}

// VersionError is a document of another wire version.
type VersionError struct {
	// Got is the version of the document.
	Got int
}

// Error says which versions met.
func (e *VersionError) Error() string {
	return fmt.Sprintf("wire version %d, this program speaks %d", e.Got, Version)
}

// checkVersion reads the wire version alone, so that a document of a later
// version is told by its version and not by the first key unknown here.
func checkVersion(b []byte) error {
	var head struct {
		Wire *int `json:"wire"`
	}
	if err := checkShape(b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	if head.Wire == nil {
		return errors.New("no wire version")
	}
	if *head.Wire != Version {
		return &VersionError{Got: *head.Wire}
	}
	return nil
}
