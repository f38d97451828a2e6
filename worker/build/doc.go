// Package build makes the configured runtime. It is the one place that names concrete
// runtimes.
package build
