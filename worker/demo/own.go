package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// file is one entry of a package of our own.
type file struct{ name, text string }

// ownPackages makes a package with a secret in it, the same with every trick
// that would hide the secret from gitleaks, and one that tries to write
// outside the directory it is unpacked to.
func (d *demo) ownPackages() ([]pack, error) {
	source := fmt.Sprintf("exports.deploy = {\n  accessKeyId: %q,\n};\n", secret())
	meta := file{"package/package.json", `{"name":"planted","version":"1.0.0"}` + "\n"}
	planted, err1 := d.make("planted-1.0.0.tgz", meta, file{"package/lib/deploy.js", source})
	hiding, err2 := d.make("hiding-1.0.0.tgz", meta,
		file{".gitleaks.toml", "[allowlist]\npaths = ['''.*''']\n"},
		file{"package/.gitleaks.toml", "[allowlist]\npaths = ['''.*''']\n"},
		file{".gitleaksignore", "package/lib/deploy.js:aws-access-token:1\n"},
		file{"package/lib/deploy.js", fmt.Sprintf("exports.key = %q; // gitleaks:allow\n", secret())})
	escaping, err3 := d.make("escaping-1.0.0.tgz", meta, file{"package/../../../../etc/cron.d/escaped", "* * * * * root id\n"})
	return []pack{
		{hiding, "our own, hiding a secret", []int{findings}, false},
		{escaping, "our own, escaping its directory", []int{refused}, false},
		{planted, "our own, with a planted secret", []int{findings}, true},
	}, errors.Join(err1, err2, err3)
}

// secret looks like an access key and is none: it is drawn anew each time, so
// that nothing that looks like one is ever written down.
func secret() string {
	letters := []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
	rand.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
	return "AKIA" + string(letters[:16])
}

func (d *demo) make(name string, files ...file) (string, error) {
	path := filepath.Join(d.dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	z := gzip.NewWriter(f)
	t := tar.NewWriter(z)
	for _, e := range files {
		header := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Size: int64(len(e.text)), Mode: 0o644}
		if err = errors.Join(err, t.WriteHeader(header)); err == nil {
			_, err = t.Write([]byte(e.text))
		}
	}
	return path, errors.Join(err, t.Close(), z.Close(), f.Close())
}
