package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// copyPart is how much is copied between two looks at the context.
const copyPart = 16 << 20

// SizeError is an artifact that is not as long as it was said to be.
type SizeError struct {
	// Want is the length that was announced.
	Want int64
	// Got is the length that was found, or Want+1 for anything longer.
	Got int64
}

// Error says both lengths.
func (e *SizeError) Error() string {
	if e.Got > e.Want {
		return fmt.Sprintf("the artifact has more than the %d bytes that were announced", e.Want)
	}
	return fmt.Sprintf("the artifact has %d bytes, %d were announced", e.Got, e.Want)
}

// copyArtifact copies the artifact into the work directory and checks its
// length. From a file the kernel copies, and shares the blocks where the file
// system can.
func (d *Dir) copyArtifact(ctx context.Context, name string) error {
	artifact := d.request.Artifact
	src, err := artifact.Open(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errArtifact, err)
	}
	defer src.Close()
	dst, err := d.create(d.inputs, name)
	if err != nil {
		return err
	}
	defer dst.Close()
	want := artifact.Size()
	for copied := int64(0); copied < want; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := io.CopyN(dst, src, min(copyPart, want-copied))
		copied += n
		if errors.Is(err, io.EOF) {
			return &SizeError{Want: want, Got: copied}
		}
		if err != nil {
			return err
		}
	}
	if err := atEnd(src, want); err != nil {
		return err
	}
	return dst.Close()
}

func atEnd(src io.Reader, want int64) error {
	n, err := io.ReadFull(src, make([]byte, 1))
	switch {
	case n > 0:
		return &SizeError{Want: want, Got: want + 1}
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}
