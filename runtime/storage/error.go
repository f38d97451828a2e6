package storage

import (
	"errors"
	"fmt"
)

// What an error of a backend wraps.
var (
	// ErrNotFound: there is no such object.
	ErrNotFound = errors.New("no such object")
	// ErrUnsupported: this backend can't do that, whatever is tried.
	ErrUnsupported = errors.New("not supported by this backend")
	// ErrDenied: the backend answered and refused: credentials, an expired or
	// foreign signature, a wrong clock.
	ErrDenied = errors.New("refused by the backend")
	// ErrUnavailable: no answer came in time, whatever was retried.
	ErrUnavailable = errors.New("the backend did not answer")
	// ErrNoSpace: the backend is full.
	ErrNoSpace = errors.New("the backend is full")
	// ErrSize: the bytes are not as many as were announced.
	ErrSize = errors.New("not the announced size")
)

// Error is a failed call of a backend. It wraps one of this package's errors
// where one applies, and prints as one line without any credential.
type Error struct {
	// Op is what was being done, such as "get".
	Op string
	// Backend is the backend's kind, Key the object's.
	Backend, Key string
	// Detail is what the backend said; Hint what to do about it.
	Detail, Hint string
	Err          error
}

// Error says what failed, where, and what to do.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s storage: %s %q: %v", e.Backend, e.Op, e.Key, e.Err)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
