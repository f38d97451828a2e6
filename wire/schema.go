package wire

import _ "embed"

// ManifestSchema is the JSON Schema (2020-12) of manifest.json.
//
//go:embed schema/manifest.schema.json
var ManifestSchema []byte

// ResultSchema is the JSON Schema (2020-12) of the result inside result.json.
//
//go:embed schema/result.schema.json
var ResultSchema []byte
