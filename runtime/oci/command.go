package oci

import (
	"context"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
)

// PassedOn are the variables of this process that the engine's command line
// gets: where the engine is and keeps its things. Nothing else reaches it, as
// a worker's environment may hold credentials.
var PassedOn = []string{
	"PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_API_VERSION",
	"CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE", "STORAGE_DRIVER",
}

// Located is what of this process's environment says whose containers an engine's
// command line sees, as "NAME=value": where the same engine's is another, so are
// its containers. Of what the command line does not get, such as CONTAINER_HOST,
// it says nothing, nor of a home that is the account's own.
func Located(engine string) []string {
	names := decisive(engine, root())
	return slices.DeleteFunc(environ(Config{Engine: engine}), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return !slices.Contains(names, name) || name == "HOME" && value == ownHome()
	})
}

// ownHome is the home directory of this process's account, empty for one that
// nobody knows.
func ownHome() string {
	account, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return ""
	}
	return account.HomeDir
}

// decisive are the variables by which an engine finds its containers. Rootful
// podman keeps them, and what it reads, in one place for everybody, whose HOME
// says nothing. Docker's has the context that was chosen with "docker context use".
func decisive(engine string, root bool) []string {
	switch {
	case engine != Podman:
		return []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "HOME"}
	case root:
		return []string{"CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "STORAGE_DRIVER"}
	}
	return []string{"CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "STORAGE_DRIVER", "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environ is the engine's whole environment.
func environ(c Config) []string {
	var env []string
	for _, name := range PassedOn {
		if value, ok := os.LookupEnv(name); ok && value != "" {
			env = append(env, name+"="+value)
		} else if name == "PATH" {
			env = append(env, "PATH="+defaultPath)
		}
	}
	for _, entry := range c.Env {
		name, _, _ := strings.Cut(entry, "=")
		if c.Engine == Docker && emptied(name) {
			// It would be put into the container (see Argv).
			continue
		}
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		env = append(env, entry)
	}
	return env
}

// emptied says whether Argv takes a variable out of a docker container by
// naming it, which only works if the command line has none.
func emptied(name string) bool {
	return name == "HOSTNAME" || slices.Contains(proxies, strings.ToUpper(name))
}

const (
	// callTime bounds one short call of the engine. Podman 4.3 can lock itself
	// up: `run --userns auto` and `ps` take the storage's locks in two orders,
	// and wait for each other, and all others with them, until one is killed.
	callTime = 15 * time.Second
	// callHead is how much of an answer is read.
	callHead = 16 << 20
)

// call runs one short command of the engine.
func (e *engine) call(ctx context.Context, path string, args ...string) (process.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return process.Run(ctx, process.Spec{Path: path, Argv: append([]string{e.config.Binary}, args...), Env: e.env, Head: callHead})
}

// advices begin the lines of an engine that say nothing about a failure.
var advices = []string{"Run 'docker ", "See 'docker ", "See 'podman ", "Usage:  docker", "WARNING: Localhost DNS"}

// tidy is what an engine printed without its advice, which would be the last
// line of every error.
func tidy(stderr string) string {
	var lines []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimRight(line, "\n")
		advice := slices.ContainsFunc(advices, func(a string) bool { return strings.HasPrefix(line, a) })
		if strings.TrimSpace(line) != "" && !advice {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func root() bool { return os.Geteuid() == 0 }
