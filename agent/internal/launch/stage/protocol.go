package stage

import (
	"encoding/binary"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent/internal/reap"
)

// The argv[0] of each role. Nothing else selects it.
const (
	MarkerKeeper  = "batlehub-sandbox: keeper"
	MarkerWitness = "batlehub-sandbox: witness"
)

// Executable is this program, whatever it is called and wherever it stands.
const Executable = "/proc/self/exe"

// The descriptors of a keeper besides the scanner's own three.
const (
	// fdReport of a keeper takes records.
	fdReport = 3
	// fdLifeline of a keeper is read only to see it close.
	fdLifeline = 4
)

// Job is what a scanner is to be. A keeper is told through its arguments.
type Job struct {
	// Program is the file to execute and Argv its arguments, argv[0] included.
	Program string
	Argv    []string
	// Dir is the working directory, Home and Path the environment.
	Dir, Home, Path string
	// Closed are directories, absolute and clean, that the scanner can't reach
	// where the kernel can close them.
	Closed []string
	// AddressSpace, FileSize (bytes), CPU (seconds), OpenFiles and Processes
	// are limits; none is set where the value is negative.
	AddressSpace, FileSize, CPU, OpenFiles, Processes int64
	// DieWith is the pid of the parent that the scanner dies with, negative
	// where it need not. The kernel means the thread that started it.
	DieWith int64
}

// numbers is how many arguments hold numbers, fixed how many go before the
// closed directories and the scanner's own. The last number counts the former.
const (
	numbers = 7
	fixed   = 4 + numbers
)

// Args is the job as the arguments behind the marker.
func (j Job) Args() []string {
	args := make([]string, 0, fixed+len(j.Closed)+len(j.Argv))
	args = append(args, j.Program, j.Dir, j.Home, j.Path)
	for _, n := range [numbers]int64{j.AddressSpace, j.FileSize, j.CPU, j.OpenFiles, j.Processes, j.DieWith, int64(len(j.Closed))} {
		args = append(args, strconv.FormatInt(n, 10))
	}
	return append(append(args, j.Closed...), j.Argv...)
}

// parseJob is the way back. It reports false on anything Args did not write.
func parseJob(args []string) (Job, bool) {
	if len(args) <= fixed {
		return Job{}, false
	}
	var n [numbers]int64
	for i := range n {
		v, err := strconv.ParseInt(args[4+i], 10, 64)
		if err != nil {
			return Job{}, false
		}
		n[i] = v
	}
	closed := n[numbers-1]
	if closed < 0 || closed >= int64(len(args)-fixed) {
		return Job{}, false
	}
	rest := args[fixed:]
	return Job{
		Program: args[0], Dir: args[1], Home: args[2], Path: args[3], Closed: rest[:closed], Argv: rest[closed:],
		AddressSpace: n[0], FileSize: n[1], CPU: n[2], OpenFiles: n[3], Processes: n[4], DieWith: n[5],
	}, true
}

// Step is what a keeper, or a child that becomes a scanner, was doing.
type Step byte

// The steps, in order.
const (
	StepArguments Step = iota + 1
	StepDescriptors
	StepParent
	StepDirectory
	StepPrivileges
	StepScope
	StepLimits
	StepFilter
	StepExec
	StepKeeper
)

// String says what the step does.
func (s Step) String() string {
	names := [...]string{
		StepArguments: "reading the scanner's arguments", StepDescriptors: "closing descriptors",
		StepParent: "tying the scanner to its parent", StepDirectory: "changing to the work directory",
		StepPrivileges: "setting no new privileges", StepScope: "entering a domain of its own",
		StepLimits: "setting the limits",
		StepFilter: "installing the filter", StepExec: "executing the scanner", StepKeeper: "keeping the scanner",
	}
	if int(s) >= len(names) || s == 0 {
		return "launching"
	}
	return names[s]
}

// Record is one message of a keeper: a step that failed, that the scanner runs,
// or how it ended.
type Record struct {
	Kind  Kind
	Step  Step
	Errno syscall.Errno
	Exit  reap.Exit
	// Left says that processes would not end.
	Left bool
}

// Kind is the kind of a Record.
type Kind byte

// The kinds of records.
const (
	Failed Kind = 'F'
	Runs   Kind = 'R'
	Ended  Kind = 'E'
)

const recordSize = 3 + 4 + 4 + 3*8

// Write writes the record in one piece.
func (r Record) Write(fd int) error {
	var b [recordSize]byte
	b[0], b[1] = byte(r.Kind), byte(r.Step)
	if r.Left {
		b[2] = 1
	}
	binary.LittleEndian.PutUint32(b[3:], uint32(r.Errno))
	binary.LittleEndian.PutUint32(b[7:], uint32(r.Exit.Status))
	binary.LittleEndian.PutUint64(b[11:], uint64(r.Exit.User))
	binary.LittleEndian.PutUint64(b[19:], uint64(r.Exit.System))
	binary.LittleEndian.PutUint64(b[27:], uint64(r.Exit.MaxRSSKiB))
	_, err := syscall.Write(fd, b[:])
	return err
}

// ReadRecord reads the next record. It returns io.EOF when there is none.
func ReadRecord(f *os.File) (Record, error) {
	var b [recordSize]byte
	if _, err := io.ReadFull(f, b[:]); err != nil {
		return Record{}, err
	}
	return decode(b), nil
}

func decode(b [recordSize]byte) Record {
	return Record{
		Kind: Kind(b[0]), Step: Step(b[1]), Left: b[2] == 1,
		Errno: syscall.Errno(binary.LittleEndian.Uint32(b[3:])),
		Exit: reap.Exit{
			Status:    syscall.WaitStatus(binary.LittleEndian.Uint32(b[7:])),
			User:      time.Duration(binary.LittleEndian.Uint64(b[11:])),
			System:    time.Duration(binary.LittleEndian.Uint64(b[19:])),
			MaxRSSKiB: int64(binary.LittleEndian.Uint64(b[27:])),
		},
	}
}
