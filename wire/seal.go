package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
)

// SealKey is a run's random key. The agent takes it from the manifest and
// removes the manifest before the scanner starts, so that a scanner can
// destroy a result but not forge one.
type SealKey [32]byte

// NewSealKey draws a key from the system's random source, which does not fail.
func NewSealKey() SealKey {
	var k SealKey
	_, _ = rand.Read(k[:])
	return k
}

// MarshalText writes the key in hexadecimal.
func (k SealKey) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText reads a key of exactly 64 hexadecimal digits.
func (k *SealKey) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(k)) {
		return errors.New("seal_key is not 64 hexadecimal digits")
	}
	if _, err := hex.Decode(k[:], b); err != nil {
		return errors.New("seal_key is not 64 hexadecimal digits")
	}
	return nil
}

// String keeps the key out of logs.
func (SealKey) String() string { return "[seal key]" }

// GoString keeps the key out of logs.
func (SealKey) GoString() string { return "[seal key]" }

// sealContext keeps a seal from being valid for anything but a result.
const sealContext = "batlehub-sandbox result v1\x00"

// seal is the HMAC-SHA256 of a result's two parts. Each length goes before its
// part, so that bytes can't move from one to the other.
func (k SealKey) seal(result, stdout []byte) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(sealContext))
	writePart(mac, result)
	writePart(mac, stdout)
	return mac.Sum(nil)
}

func writePart(mac hash.Hash, part []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(part)))
	mac.Write(length[:])
	mac.Write(part)
}
