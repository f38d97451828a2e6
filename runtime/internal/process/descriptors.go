package process

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// KeepDescriptors marks every descriptor of this process above 2 as not for
// children. Go opens none that is, but this process may have inherited some,
// and so would every sandbox.
func KeepDescriptors() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	// Linux before 5.11.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
