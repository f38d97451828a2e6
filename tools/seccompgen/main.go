// Command seccompgen compiles the table of agent/seccomp to one BPF program
// per architecture, with libseccomp, and takes the system call numbers from
// the x/sys that the agent is built with.
//
// It is the only program here that needs cgo and libseccomp, runs when the
// table changes and never where a scanner does. From the repository's root:
//
//	GOWORK=off go -C tools/seccompgen run . -doc ../../docs/seccomp.md
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	libseccomp "github.com/seccomp/libseccomp-golang"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

func main() {
	out := flag.String("out", "../../agent/seccomp", "the directory of package seccomp")
	to := flag.String("to", "", "the directory to write to, if another")
	doc := flag.String("doc", "", "a document whose part between the two table comments is written anew")
	version := flag.Bool("version", false, "print libseccomp's version and exit")
	flag.Parse()
	if *version {
		major, minor, micro := libseccomp.GetLibraryVersion()
		fmt.Printf("%d.%d.%d\n", major, minor, micro)
		return
	}
	if *to == "" {
		*to = *out
	}
	if err := generate(*out, *to); err != nil {
		fmt.Fprintln(os.Stderr, "seccompgen:", err)
		os.Exit(1)
	}
	if *doc != "" {
		if err := document(*doc); err != nil {
			fmt.Fprintln(os.Stderr, "seccompgen:", err)
			os.Exit(1)
		}
	}
}

// generate reads the numbers by the module that pkg belongs to and writes
// numbers.go and the filters to the directory to. The numbers it compiles
// with are the ones it just read, so one run is enough.
func generate(pkg, to string) error {
	for _, arch := range seccomp.Arches() {
		numbers, err := readNumbers(pkg, arch.Name)
		if err != nil {
			return fmt.Errorf("reading the numbers of %s: %w", arch.Name, err)
		}
		arch.Numbers = numbers
		if err := writeNumbers(filepath.Join(to, "numbers_"+arch.Name+"_table.go"), arch); err != nil {
			return err
		}
		program, err := compile(arch, seccomp.Rules())
		if err != nil {
			return fmt.Errorf("compiling for %s: %w", arch.Name, err)
		}
		if err := os.WriteFile(filepath.Join(to, "filter_"+arch.Name+".bpf"), program, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func document(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), seccomp.TableBegin)
	_, tail, closed := strings.Cut(rest, seccomp.TableEnd)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the table", path)
	}
	return os.WriteFile(path, []byte(head+seccomp.TableBegin+"\n"+seccomp.Markdown()+seccomp.TableEnd+tail), 0o644)
}
