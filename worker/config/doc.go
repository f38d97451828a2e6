// Package config reads the TOML configuration of a scan worker: the RFC's [worker.sandbox]
// keys and one table per scanner, from one or more layered files. Every refusal
// is one line that says what is wrong, where, and what to do.
package config
