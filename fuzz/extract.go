package fuzz

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// tight is a policy small enough that a fuzzer meets its limits.
var tight = wire.ExtractPolicy{
	MaxEntries: 64, MaxBytes: 1 << 20, MaxFileBytes: 512 << 10, MaxPathBytes: 256, MaxDepth: 8, MaxRatio: 1000,
	Duplicates: wire.ClashKeep, CaseClash: wire.ClashKeep,
}

// archive unpacks data twice, the second time with an inner archive asked for,
// and each time looks at what it left: nothing outside the root, no limit
// passed, nothing but plain files, directories and links that stay inside. It
// reports whether the archive was taken at all.
func archive(data []byte) bool {
	nested := []wire.Nested{{Member: "data.tar*", Into: wire.MustRelPath("data")}}
	outer := unpack(data, nil)
	return unpack(data, nested) || outer
}

func unpack(data []byte, nested []wire.Nested) bool {
	dir, err := os.MkdirTemp("", "fuzz-")
	must(err)
	defer func() { must(os.RemoveAll(dir)) }()
	must(os.WriteFile(filepath.Join(dir, "canary"), []byte("alive"), 0o600))
	must(os.WriteFile(filepath.Join(dir, "archive"), data, 0o600))
	must(os.Mkdir(filepath.Join(dir, "root"), 0o700))
	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	must(err)
	defer root.Close()
	src, err := os.Open(filepath.Join(dir, "archive"))
	must(err)
	defer src.Close()

	x := extract.New(root, tight)
	err = x.Archive(context.Background(), "fuzz", src, wire.MustRelPath("artifact"), nested)
	if _, refused := errors.AsType[*extract.RefusalError](err); err != nil && !refused {
		panic(fmt.Sprintf("neither unpacked nor refused: %v", err))
	}
	checkOutside(dir)
	checkInside(filepath.Join(dir, "root"))
	report := x.Report()
	if report.Entries > tight.MaxEntries || report.Bytes > tight.MaxBytes {
		panic(fmt.Sprintf("a limit was passed: %+v", report))
	}
	return err == nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// checkOutside looks for anything but what the target itself put beside the root.
func checkOutside(dir string) {
	entries, err := os.ReadDir(dir)
	must(err)
	for _, e := range entries {
		switch e.Name() {
		case "canary", "archive", "root":
		default:
			panic("escaped to " + e.Name())
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "canary")); err != nil || string(b) != "alive" {
		panic(fmt.Sprintf("the canary reads %q, %v", b, err))
	}
}

// checkInside walks the root without following a link.
func checkInside(root string) {
	var files, total int64
	must(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		must(err)
		info, err := d.Info()
		must(err)
		rel, _ := filepath.Rel(root, path)
		switch mode := info.Mode(); {
		case mode.IsDir():
		case mode.IsRegular():
			files++
			total += info.Size()
			if mode&(0o111|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
				panic(fmt.Sprintf("%q has mode %v", rel, mode))
			}
			if info.Size() > tight.MaxFileBytes {
				panic(fmt.Sprintf("%q has %d bytes", rel, info.Size()))
			}
		case mode&fs.ModeSymlink != 0:
			checkLink(root, path)
		default:
			panic(fmt.Sprintf("%q is a %v", rel, mode))
		}
		if len(rel) > 2*wire.PathBytesCap || strings.Count(rel, "/") > 2*int(tight.MaxDepth) {
			panic(fmt.Sprintf("%q is too long or too deep", rel))
		}
		return nil
	}))
	if files > 2*tight.MaxEntries || total > 2*tight.MaxBytes {
		panic(fmt.Sprintf("%d files of %d bytes", files, total))
	}
}

// checkLink resolves a link as the kernel would, and wants it inside.
func checkLink(root, path string) {
	target, err := os.Readlink(path)
	must(err)
	if filepath.IsAbs(target) {
		panic(fmt.Sprintf("link %q to %q", path, target))
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		real, err := filepath.EvalSymlinks(root)
		must(err)
		if resolved != real && !strings.HasPrefix(resolved, real+"/") {
			panic(fmt.Sprintf("link %q leads to %q", path, resolved))
		}
	}
}
