package bundle

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const ownerName = "owner.json"

// owner is what a sweep knows of a run directory besides its name. It stands
// outside the work directory, so no sandbox ever saw it.
type owner struct {
	Worker   string    `json:"worker"`
	Created  time.Time `json:"created"`
	Deadline time.Time `json:"deadline"`
}

func writeOwner(dir string, r Request) error {
	now := time.Now()
	o := owner{Worker: r.Manifest.Label.Worker, Created: now, Deadline: r.Deadline}
	if o.Deadline.IsZero() {
		o.Deadline = now.Add(r.Manifest.Timeout())
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, ownerName)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		return err
	}
	return os.Chmod(name, 0o600)
}

// readOwner reads what writeOwner wrote, through dir. The directory may be
// anybody's, if the parent is everybody's.
func readOwner(dir *os.File) (owner, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), ownerName, flags, 0)
	if err != nil {
		return owner{}, err
	}
	f := os.NewFile(uintptr(fd), ownerName)
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return owner{}, errors.New("owner.json is not a regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return owner{}, err
	}
	var o owner
	err = json.Unmarshal(b, &o)
	return o, err
}
