// Package none is the runtime without walls: the agent's own code as a
// library, in a directory of its own. It is what every other runtime's answer
// is compared with, and is refused outside tests unless it is asked for by a
// name that says what it is.
package none
