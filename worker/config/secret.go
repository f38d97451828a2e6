package config

import (
	"fmt"
	"io"
)

// Secret is a value that prints as a placeholder, whatever prints it.
type Secret string

const redacted = "(secret)"

// Reveal is the value.
func (s Secret) Reveal() string { return string(s) }

// Format implements fmt.Formatter for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.text()) }

// String implements fmt.Stringer.
func (s Secret) String() string { return s.text() }

// MarshalText implements encoding.TextMarshaler, and so JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.text()), nil }

func (s Secret) text() string {
	if s == "" {
		return ""
	}
	return redacted
}
