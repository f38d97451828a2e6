//go:build amd64 || arm64

package stage

// rawVfork makes the clone call with flags and nothing else, as vfork(2) does:
// it returns twice, in the child first, on the same stack.
//
//go:noescape
func rawVfork(trap, flags uintptr) (pid, errno uintptr)
