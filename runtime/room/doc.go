// Package room builds and checks rooms: the trees that runs see as their root.
//
// A room holds the scanner, what the scanner needs, the agent and nothing
// else: no shell and no program of the worker's. It has the mount points that
// a read-only root can't be given later.
package room
