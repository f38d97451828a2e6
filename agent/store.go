package agent

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/collect"
	"github.com/batleforc/batlehub-sandbox/agent/internal/fetch"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// store is where the result of a run goes.
type store struct {
	client *fetch.Client
	key    wire.SealKey
	// urls take a result of the size at the same index; without sizes there
	// is one that takes any.
	urls  []string
	sizes []int64
	// files are the places among them that are files, opened before the
	// scanner can touch them.
	files map[string]*collect.Place
}

// openStore opens the places: the manifest's signed ones, or out.
func openStore(client *fetch.Client, out string, m *wire.Manifest) (store, error) {
	s := store{client: client, key: m.SealKey, files: map[string]*collect.Place{}}
	for _, r := range m.Results {
		s.urls, s.sizes = append(s.urls, r.URL), append(s.sizes, r.Size)
	}
	if len(s.urls) == 0 {
		s.urls = []string{out}
	}
	for _, url := range s.urls {
		path, ok := fetch.FilePath(url)
		if !ok {
			continue
		}
		place, err := collect.OpenPlace(path)
		if err != nil {
			s.close()
			return store{}, err
		}
		s.files[url] = place
	}
	return s, nil
}

func (s store) close() {
	for _, place := range s.files {
		place.Close()
	}
}

// rising leaves out what no result could be stored at, in the head of a
// manifest that was not checked.
func rising(results []wire.ResultURL) []wire.ResultURL {
	var kept []wire.ResultURL
	for _, r := range results {
		last := int64(0)
		if len(kept) > 0 {
			last = kept[len(kept)-1].Size
		}
		if r.Size > last && r.Size <= wire.ResultTarCap && fetch.Check(r.URL) == nil {
			kept = append(kept, r)
		}
	}
	return kept
}

// put seals the result and stores it. free is called when there is no space.
func (s store) put(ctx context.Context, r *wire.Result, stdout []byte, free func()) error {
	b, index, err := s.encode(r, stdout)
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	url := s.urls[max(index, 0)]
	place := s.files[url]
	if place == nil {
		return s.client.Put(ctx, url, b)
	}
	if err = place.Write(b); errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		free()
		err = place.Write(b)
	}
	return err
}

// encode returns the result tar. A result that passes a bound loses first the
// notes beyond the tenth, then all text that is not needed; and what the
// scanner printed only if no signed size holds it, which is then an output
// that was too large and not an answer.
func (s store) encode(r *wire.Result, stdout []byte) (b []byte, index int, err error) {
	for _, smaller := range []func(){
		func() {},
		func() { r.Extraction.Notes = r.Extraction.Notes[:min(10, len(r.Extraction.Notes))] },
		func() { r.Extraction.Notes, r.StderrTail = []wire.Note{}, "" },
		func() { r.Ending, r.Status, r.Signal, stdout = tooLarge(r.Ending), nil, "", nil },
	} {
		smaller()
		if b, index, err = wire.EncodeResult(r, stdout, s.key, s.sizes); err == nil {
			return b, index, nil
		}
	}
	return nil, -1, err
}

// rehearse encodes a result like r and forgets it. What the first encoding has
// to set up is set up while the scanner runs then, and not after it: half a
// millisecond to one of a run, where a page fault is dear.
func (s store) rehearse(r *wire.Result) {
	draft, status := *r, 0
	draft.Ending, draft.Status = wire.EndExited, &status
	_, _, _ = s.encode(&draft, nil)
}

func tooLarge(e wire.Ending) wire.Ending {
	if e == wire.EndExited || e == wire.EndSignaled {
		return wire.EndStdoutCap
	}
	return e
}
