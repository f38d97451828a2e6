// Package seccomp makes the filter that an OCI runtime installs around a whole
// sandbox: the containers' default profile, cut down to what a container
// without any capability gets, and less what no such container has a use for.
//
// The agent's own filter stands inside this one and is stricter. Two filters
// that refuse the same call are not redundant: this one also holds for the
// agent, and is there before the room's first instruction.
package seccomp
