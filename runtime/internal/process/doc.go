// Package process runs one child of this process, such as bwrap or an
// engine's command line: never inherited from, never listened to beyond the
// end of its stderr, and never left behind.
package process
