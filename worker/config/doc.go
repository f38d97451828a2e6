// Package config reads the TOML configuration of a scan worker: the keys of
// [worker.sandbox] and one table per scanner, from one or more layered files.
//
// The table in keys.go is the one place that knows the keys: parsing, refusing,
// defaults and the documentation's check all go by it. A key that is not in it
// is refused with the nearest known name, because a key that is silently
// ignored is a deployment that believes it runs something it does not.
package config
