package main

import "golang.org/x/sys/unix"

// archCalls are those that only this architecture has.
var archCalls = []kernelCall{
	{"iopl", unix.SYS_IOPL, []uintptr{99}},
	{"ioperm", unix.SYS_IOPERM, []uintptr{1 << 20, 1, 1}},
	{"uselib", unix.SYS_USELIB, []uintptr{0}},
	{"ustat", unix.SYS_USTAT, []uintptr{^uintptr(0), 0}},
	{"sysfs", unix.SYS_SYSFS, []uintptr{99}},
	{"modify_ldt", unix.SYS_MODIFY_LDT, []uintptr{99, 0, 0}},
}
