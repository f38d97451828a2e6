// Package process runs one child of this process, such as bwrap or an
// engine's command line: never inherited from, never listened to beyond the
// end of its stderr, and never left behind.
//
// Starting a child marks every descriptor of this process above 2 as not for
// children, also those that other code meant to be inherited.
package process
