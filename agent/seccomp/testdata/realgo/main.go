// A Go program that does what scanners written in Go do. It prints one line
// per piece of work, the same on every run.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) > 1 {
		fmt.Println("child")
		os.Exit(7)
	}
	status, err := os.ReadFile("/proc/self/status")
	must(err)
	fmt.Fprintln(os.Stderr, regexp.MustCompile(`Seccomp:\s+\d`).FindString(string(status)))
	threads()
	files()
	sockets()
	children()
	fmt.Println("done")
}

func threads() {
	var n atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			runtime.LockOSThread() // and never unlocked: sixteen real threads
			for range 10000 {
				n.Add(1)
			}
		})
	}
	group.Wait()
	runtime.GC()
	fmt.Println("threads counted", n.Load())
}

func files() {
	dir, err := os.MkdirTemp(".", "realgo")
	must(err)
	defer os.RemoveAll(dir)
	for i := range 50 {
		must(os.MkdirAll(filepath.Join(dir, fmt.Sprint(i%7)), 0o700))
		must(os.WriteFile(filepath.Join(dir, fmt.Sprint(i%7), fmt.Sprint(i)), []byte(strings.Repeat("x", i)), 0o600))
	}
	must(os.Symlink("0", filepath.Join(dir, "link")))
	count, sum := 0, sha256.New()
	must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			count++
			b, err := os.ReadFile(path)
			must(err)
			sum.Write(b)
		}
		return err
	}))
	fmt.Printf("files %d, %x\n", count, sum.Sum(nil)[:4])
}

func sockets() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	response, err := http.Get("http://" + l.Addr().String())
	must(err)
	b, err := io.ReadAll(response.Body)
	must(err)
	_, err = net.Interfaces()
	must(err)
	fmt.Printf("http said %s\n", b)
}

func children() {
	for range 3 {
		out, err := exec.Command("/proc/self/exe", "child").Output()
		fmt.Printf("child said %q, %v\n", out, err)
	}
}
