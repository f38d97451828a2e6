// Package fuzz holds the fuzz targets of everything that parses hostile bytes:
// manifests, results, relative paths and archives.
//
// Each target is one function over bytes that panics when a promise is broken.
// The native targets (go test -fuzz) and the go-fuzz entry points (build tag
// gofuzz) call the same functions.
package fuzz

//go:generate go run ./internal/seedgen
