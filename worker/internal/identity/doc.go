// Package identity gives each living worker an id that no other living worker
// has, and a killed worker's id to the next one that starts beside it, which
// then sweeps what the dead one left.
//
// A worker holds a file of its own with flock(2) as long as it lives, and
// removes it when it ends with nothing left behind. A file that nobody holds is
// therefore a worker's that was killed. The kernel ends a lock with the process
// that has it, and so no clock, no process id and no heartbeat decides.
//
// A lock says something about processes of one kernel and one file only. The
// files' names are bound to both: one that another host, an earlier boot or
// another container has made, or that came with a copied directory, is not
// looked at. Where that costs a worker its predecessor's id, what that left is
// swept by age.
package identity
