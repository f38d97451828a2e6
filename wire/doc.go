// Package wire holds the formats that cross a sandbox's wall: the manifest
// that tells the agent what to do, and the result that comes back.
//
// It is data and nothing else. It imports the standard library only, opens no
// file, starts no goroutine and reads no environment, so that the worker, the
// runtimes and the agent can all depend on it without inheriting anything.
//
// Both directions are parsed as hostile input. Every parser here checks a size
// before it allocates for it, refuses unknown and repeated keys, and bounds
// every string and list.
package wire
