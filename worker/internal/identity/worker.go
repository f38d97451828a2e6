package identity

import (
	"crypto/rand"
	"os"
	"strings"
)

// Prefix begins every id; random follows it, in the alphabet of base32 in lower
// case, so that an id stands in every label and name.
const Prefix = "sandboxctl-"

const randomLength = 12

func newID() string { return Prefix + strings.ToLower(rand.Text()[:randomLength]) }

// Worker is the id that a process has, and the ids of killed workers that it
// answers for.
type Worker struct {
	// held begins with the worker's own.
	held []held
}

type held struct {
	id string
	// file is what is locked, under its path; nil for an id that nobody takes
	// over.
	file *os.File
	path string
	// owed says that a killed worker's things have still to be swept.
	owed bool
}

// New is a worker with a new id, which goes with it.
func New() *Worker { return &Worker{held: []held{{id: newID()}}} }

// ID is the worker's own id.
func (w *Worker) ID() string { return w.held[0].id }

// Settle calls sweep with the worker's own id, and then with that of each other
// killed worker's, which nobody has once it is swept. The first error ends it,
// and is returned: what was not swept is left to the next start.
func (w *Worker) Settle(sweep func(worker string) error) error {
	for i := range w.held {
		if err := sweep(w.held[i].id); err != nil {
			w.held = append(w.held[:1], w.held[max(i, 1):]...)
			return err
		}
		w.held[i].owed = false
		if i > 0 {
			w.held[i].release()
		}
	}
	w.held = w.held[:1]
	return nil
}

// Close gives the ids up. One whose worker may have left something goes to the
// next start, as that of a killed one does.
func (w *Worker) Close(left bool) {
	w.held[0].owed = w.held[0].owed || left
	for _, h := range w.held {
		h.release()
	}
}

// release removes the file of an id that owes nothing, while its lock is still
// held: whoever waits for it sees that it is gone.
func (h held) release() {
	if h.file == nil {
		return
	}
	if !h.owed {
		// One that stays is a sweep more.
		_ = os.Remove(h.path)
	}
	_ = h.file.Close()
}
