// Command tool is what the tests of image runtimes run in a scanner's place.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

func main() {
	verb := ""
	if len(os.Args) > 1 {
		verb = os.Args[1]
	}
	do, ok := verbs[verb]
	if !ok {
		do = sleep
	}
	if err := do(os.Args[min(2, len(os.Args)):]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// verbs are what it does; anything else sleeps, as do the agent's arguments.
var verbs = map[string]func([]string) error{
	"cat": cat, "env": env, "stdin": stdin, "eat": eat, "fill": fill, "reach": reach, "sleep": sleep,
}

func sleep([]string) error {
	<-time.After(time.Hour)
	return nil
}

func cat(files []string) error {
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		fmt.Print(string(b))
	}
	return nil
}

func env([]string) error {
	fmt.Println(strings.Join(os.Environ(), "\n"))
	return nil
}

func stdin([]string) error {
	n, err := os.Stdin.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %d bytes, %w", n, err)
	}
	return nil
}

// eat writes to memory without an end.
func eat([]string) error {
	for kept := [][]byte{}; ; {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = 1
		}
		kept = append(kept, b)
	}
}

// fill writes to a file until that fails, and says how much there was room for.
func fill(files []string) error {
	f, err := os.OpenFile(files[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for mb := 0; ; mb++ {
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			fmt.Println(mb, err)
			return nil
		}
	}
}

// reach says of each address whether anybody answers there, and of each name
// whether it has an address. Nobody waits long for what is silent.
func reach(places []string) error {
	for _, p := range places {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		var err error
		if strings.Contains(p, ":") {
			var c net.Conn
			if c, err = (&net.Dialer{}).DialContext(ctx, "tcp", p); err == nil {
				c.Close()
			}
		} else {
			_, err = net.DefaultResolver.LookupHost(ctx, p)
		}
		cancel()
		fmt.Println(p, err == nil)
	}
	return nil
}
