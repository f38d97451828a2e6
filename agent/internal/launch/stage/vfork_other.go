//go:build !amd64 && !arm64

package stage

import "syscall"

// rawVfork fails: this machine has no filter either.
func rawVfork(_, _ uintptr) (pid, errno uintptr) { return 0, uintptr(syscall.ENOSYS) }
