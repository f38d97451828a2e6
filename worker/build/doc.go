// Package build makes the configured runtime. It is the one place that names
// concrete runtimes: one more runtime is one more case here, and nothing in
// scanners, scans or commands (RFC 0022 §3, §6.4).
package build
