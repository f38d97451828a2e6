package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/launch/stage"
)

// WitnessReport is what a process sees of itself behind the filter that a
// scanner would get.
type WitnessReport struct {
	// Seccomp, SeccompFilters and NoNewPrivs are the lines of
	// /proc/self/status: Seccomp 2 is filter mode. Each is -1 where the
	// kernel does not print it.
	Seccomp        int
	SeccompFilters int
	NoNewPrivs     int
	// Denied maps the name of a system call that the filter must refuse to
	// the errno that came back, such as "EPERM"; "ok" if it went through.
	Denied map[string]string
	// UID is the effective uid.
	UID int
	// Open maps each directory that was to be closed, and is not, to what was
	// answered there, as "list answered ok, create answered ok".
	Open map[string]string
	// CanClose says that this kernel can close directories.
	CanClose bool
}

// Witness starts this program's executable again as a witness, just as a scanner
// is started, and returns what it saw. The directories are closed to it as they
// would be to a scanner.
func Witness(ctx context.Context, closed []string) (WitnessReport, error) {
	report, err := witness(ctx, closed)
	if err != nil {
		return WitnessReport{}, fmt.Errorf("asking a witness: %w", err)
	}
	return report, nil
}

func witness(ctx context.Context, closed []string) (WitnessReport, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return WitnessReport{}, err
	}
	defer read.Close()
	null, err := emptyInput()
	if err != nil {
		write.Close()
		return WitnessReport{}, err
	}
	defer null.Close()
	job := jobOf(Spec{Argv: append([]string{stage.MarkerWitness}, closed...), Dir: ".", Closed: closed}, stage.Executable)
	pid, err := stage.Start(job, [3]uintptr{null.Fd(), write.Fd(), null.Fd()})
	write.Close()
	if err != nil {
		return WitnessReport{}, err
	}
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		close(killed)
	})
	said, err := io.ReadAll(io.LimitReader(read, 64<<10))
	if !stop() {
		// The pid must not be waited for, and given away, before the kill.
		<-killed
	}
	if e := waitFor(pid); err == nil {
		err = e
	}
	if err != nil {
		return WitnessReport{}, err
	}
	return parseWitness(string(said), closed)
}

func waitFor(pid int) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case status != 0:
			return fmt.Errorf("it ended with wait status %#x", uint32(status))
		default:
			return nil
		}
	}
}

func parseWitness(said string, closed []string) (WitnessReport, error) {
	r := WitnessReport{
		Seccomp: -1, SeccompFilters: -1, NoNewPrivs: -1, UID: -1, Denied: map[string]string{},
		Open: map[string]string{}, CanClose: stage.CanClose(),
	}
	asked := 0
	numbers := map[string]*int{"Seccomp": &r.Seccomp, "Seccomp_filters": &r.SeccompFilters, "NoNewPrivs": &r.NoNewPrivs, "uid": &r.UID}
	for line := range strings.Lines(said) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 3 && fields[0] == "call":
			r.Denied[fields[1]] = fields[2]
		case len(fields) == 4 && fields[0] == "closed":
			i, err := strconv.Atoi(fields[1])
			if err != nil || i < 0 || i >= len(closed) {
				return r, fmt.Errorf("it said %.64q", line)
			}
			asked++
			// What is refused for another reason was not refused by the wall.
			if fields[3] != "EACCES" {
				r.Open[closed[i]] = strings.TrimPrefix(r.Open[closed[i]]+", "+fields[2]+" answered "+fields[3], ", ")
			}
		case len(fields) == 2 && numbers[fields[0]] != nil:
			n, err := strconv.Atoi(fields[1])
			if err != nil {
				return r, fmt.Errorf("it said %.64q", line)
			}
			*numbers[fields[0]] = n
		default:
			return r, fmt.Errorf("it said %.64q", line)
		}
	}
	if len(r.Denied) == 0 || asked != 2*len(closed) {
		return r, errors.New("it said too little")
	}
	return r, nil
}
