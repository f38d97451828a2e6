package lab

import (
	"archive/tar"
	"bytes"
	"os"
)

// Layer is the lab's room as an image's only layer.
func (l *Lab) Layer() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, program := range map[string]string{"usr/local/bin/batlehub-sandbox": l.Agent, "usr/bin/inmate": l.Inmate} {
		content, err := os.ReadFile(program)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}
