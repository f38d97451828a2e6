package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func rawClone(flags uintptr) uintptr

//go:noescape
func rawClone3(args unsafe.Pointer, size uintptr) uintptr

func int80(number uintptr) uintptr

// answer turns the kernel's own return value into a value and an error.
func answer(v uintptr) (uintptr, error) {
	if int64(v) < 0 && int64(v) > -4096 {
		return 0, unix.Errno(-int64(v))
	}
	return v, nil
}

// cloneAndExit makes a child with clone(2) that exits at once, and reaps it.
func cloneAndExit(flags uintptr) error {
	pid, err := answer(rawClone(flags))
	if err == nil {
		_, _ = unix.Wait4(int(pid), nil, 0, nil)
	}
	return err
}

func clone3AndExit(args unsafe.Pointer, size uintptr) error {
	pid, err := answer(rawClone3(args, size))
	if err == nil {
		_, _ = unix.Wait4(int(pid), nil, 0, nil)
	}
	return err
}
