package stage

import (
	"errors"
	"os"
	"syscall"
)

// exitStage is the status of a stage that could not do its work. Nobody reads
// it: a record or an order does the telling.
const exitStage = 126

// An init function runs on the main goroutine, which is locked to the main
// thread: a keeper's scanner dies with the thread that started it.
func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
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
