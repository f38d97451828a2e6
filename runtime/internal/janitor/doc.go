// Package janitor removes the directories of a process that was killed, and
// ends what is left of its runs.
//
// A process that gets SIGKILL removes nothing, and its run directories may
// hold gigabytes of an attacker's making. So the first run starts a second
// process: the same executable, told apart by argv[0] alone, in a session of
// its own so that no terminal's or group's signal reaches it. It is told over
// a pipe which directories there are. When the pipe ends because its writer
// is gone, by whatever way, it kills the processes of these runs that did not
// die with it, removes what is left of the directories and ends too.
//
// Importing the package is what arms this: its init function takes over when
// argv[0] says so.
package janitor
