package stage

import (
	"errors"
	"os"
	"syscall"
)

// exitStage is the status of a stage that could not become a scanner. Nobody
// reads it: the record does the telling.
const exitStage = 126

// An init function runs on the main goroutine, which is locked to the main
// thread. So the filter, no new privileges and the parent's death signal are
// set on the thread that then executes the scanner.
func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case MarkerScanner:
		becomeScanner(os.Args[1:])
	case MarkerKeeper:
		keep(os.Args[1:])
	case MarkerWitness:
		witness()
	default:
		return
	}
	syscall.Exit(exitStage)
}

// fail tells the parent what went wrong and ends the stage.
func fail(step Step, err error) {
	_ = Record{Kind: Failed, Step: step, Errno: errno(err)}.Write(fdReport)
	syscall.Exit(exitStage)
}

// must fails the stage unless err is nil.
func must(step Step, err error) {
	if err != nil {
		fail(step, err)
	}
}

func errno(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return syscall.EINVAL
}
