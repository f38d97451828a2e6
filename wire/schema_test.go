package wire

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The schemas are derived from the types, so that they cannot drift: the test
// derives them again and compares.
func TestTheSchemasEqualTheTypes(t *testing.T) {
	for _, document := range []struct {
		file, title string
		of          reflect.Type
		embedded    []byte
	}{
		{"manifest.schema.json", "batlehub-sandbox manifest", reflect.TypeFor[Manifest](), ManifestSchema},
		{"result.schema.json", "batlehub-sandbox result", reflect.TypeFor[Result](), ResultSchema},
	} {
		schema := schemaOf(t, document.of)
		schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		schema["title"] = document.title
		schema["properties"].(map[string]any)["wire"] = map[string]any{"const": Version}
		got, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := filepath.Join("schema", document.file)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if string(got) != string(document.embedded) {
			t.Errorf("%s differs from the types; run the test with -update", path)
		}
	}
}

// enums are the string types whose values are closed sets.
var enums = map[reflect.Type][]any{
	reflect.TypeFor[EntryKind]():   {File, Archive},
	reflect.TypeFor[Clash]():       {ClashRefuse, ClashKeep, ClashReplace},
	reflect.TypeFor[Outcome]():     {Pass, Fail, Warn, NotClaimed},
	reflect.TypeFor[Stage]():       {StageManifest, StageFetch, StageExtract, StageGate, StageLaunch, StageCollect},
	reflect.TypeFor[Ending]():      {EndExited, EndSignaled, EndTimedOut, EndStdoutCap, EndRefused, EndFailed, EndProbed},
	reflect.TypeFor[AssertionID](): assertionValues(),
}

func assertionValues() []any {
	var values []any
	for _, id := range Assertions {
		values = append(values, id)
	}
	return values
}

func schemaOf(t *testing.T, typ reflect.Type) map[string]any {
	t.Helper()
	if values, ok := enums[typ]; ok {
		return map[string]any{"enum": values}
	}
	switch typ {
	case reflect.TypeFor[RelPath]():
		return map[string]any{"type": "string", "minLength": 1, "maxLength": PathBytesCap, "pattern": `^[^/\\]+(/[^/\\]+)*$`}
	case reflect.TypeFor[SealKey]():
		return map[string]any{"type": "string", "pattern": "^[0-9a-f]{64}$"}
	case reflect.TypeFor[[]byte]():
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	}
	switch typ.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Pointer:
		return schemaOf(t, typ.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t, typ.Elem())}
	case reflect.Struct:
		return objectSchema(t, typ)
	}
	t.Fatalf("no schema for %s", typ)
	return nil
}

func objectSchema(t *testing.T, typ reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			t.Fatalf("%s.%s has no JSON name", typ, field.Name)
		}
		properties[name] = schemaOf(t, field.Type)
		if options != "omitempty" {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func TestEveryOutcomeAndEndingIsKnownToTheParser(t *testing.T) {
	for _, e := range enums[reflect.TypeFor[Ending]()] {
		if !endings[e.(Ending)] {
			t.Errorf("ending %q is unknown", e)
		}
	}
	for _, o := range enums[reflect.TypeFor[Outcome]()] {
		if !outcomes[o.(Outcome)] {
			t.Errorf("outcome %q is unknown", o)
		}
	}
}

func TestWireImportsTheStandardLibraryOnly(t *testing.T) {
	allowed := map[string]bool{
		"bytes": true, "crypto/hmac": true, "crypto/rand": true, "crypto/sha256": true, "embed": true,
		"encoding/binary": true, "encoding/hex": true, "encoding/json": true, "errors": true, "fmt": true, "hash": true, "io": true, "strconv": true,
		"net/netip": true, "net/url": true, "path": true, "strings": true, "time": true, "unicode/utf8": true,
	}
	for file, imports := range packageImports(t) {
		for _, path := range imports {
			if !allowed[path] {
				t.Errorf("%s imports %q: wire is data only; add it to this list with care", file, path)
			}
		}
	}
}
