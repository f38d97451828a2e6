package main

import (
	"context"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/build"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/doctor"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
	"github.com/batleforc/batlehub-sandbox/worker/scanner"
)

func (a *app) doctorCommand() *cobra.Command {
	var names []string
	var format string
	c := &cobra.Command{
		Use: "doctor", Short: "Say what this host can do for each runtime, and how to fix what it can't", Args: exactly(0, ""),
		Long: `Looks at this host for each runtime: PASS, CAUTION or FAIL with the reason, and
the narrowest fix first. Changes nothing. Exit status: 0 if the configured
runtime has no FAIL, 3 if it has.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c, names, format) },
	}
	c.Flags().StringArrayVar(&names, "scanner", nil, "`name` of a scanner whose room is looked at; may be given more than once (default: all that are configured)")
	c.Flags().StringVar(&format, "format", "table", "`form` of the output: table or json")
	return c
}

func (a *app) doctor(c *cobra.Command, names []string, format string) error {
	if err := checkFormat(format); err != nil {
		return err
	}
	conf, err := a.load()
	if err != nil {
		return err
	}
	definitions, err := doctorScanners(conf, names)
	if err != nil {
		return err
	}
	images := a.doctorImages(conf, definitions)
	runs := doctorRuns(conf, definitions, images)
	agent, _ := findAgent("")
	progress := ui.NewProgress(a.stderr)
	progress.Start("looking at this host")
	checks := doctor.Examine(c.Context(), doctor.Host{
		Runtimes: build.Host(build.Options{Sandbox: conf.Worker.Sandbox, Scanners: conf.Scanners, Runs: runs}), Sandbox: conf.Worker.Sandbox,
		Rooms: doctorRooms(definitions), Agent: agent,
		Unsafe: a.getenv(build.Unsafe) == "1", UnsafeName: build.Unsafe, EUID: os.Geteuid(),
		Images: images, Parallel: conf.Worker.MaxConcurrent, User: userName(),
		Zones: func(ctx context.Context) ([]firewall.Zone, error) { return build.Zones(ctx, conf, nil) },
	})
	progress.Stop()
	if c.Context().Err() != nil {
		return c.Context().Err()
	}
	if err := a.printChecks(checks, format); err != nil {
		return err
	}
	if doctor.Worst(checks, conf.Worker.Sandbox.Runtime) == doctor.Fail {
		return quiet(ExitFailed)
	}
	return nil
}

// doctorScanners are the scanners whose rooms are looked at; a configuration
// without scanners has none.
func doctorScanners(conf *config.Config, names []string) ([]scanner.Definition, error) {
	if len(names) == 0 && !slices.ContainsFunc(slices.Collect(maps.Values(conf.Scanners)), scanner.Needed) {
		return nil, nil
	}
	return scanners(conf, names)
}

func doctorRooms(definitions []scanner.Definition) []doctor.Room {
	var rooms []doctor.Room
	for _, d := range definitions {
		rooms = append(rooms, doctor.Room{Scanner: d.Name, Command: d.Command})
	}
	return rooms
}

// doctorImages are the images of those scanners, one each.
func (a *app) doctorImages(conf *config.Config, definitions []scanner.Definition) []doctor.Image {
	images := build.Images{Configured: conf.Worker.Sandbox.DefaultImage(), Worker: a.getenv(build.ImageVariable), Runtime: conf.Worker.Sandbox.Runtime}
	var all []doctor.Image
	for _, d := range definitions {
		image := doctor.Image{Scanner: d.Name}
		name, err := images.Of(d.Name, d.Image)
		if err != nil {
			image.Problem = err.Error()
		}
		image.Name = name
		all = append(all, image)
	}
	return all
}

// doctorRuns are the runs that there will be of those scanners, in their images,
// or one by the configuration's own limits where there is no scanner.
func doctorRuns(conf *config.Config, definitions []scanner.Definition, images []doctor.Image) []sandbox.RunSpec {
	base := baseOf(conf.Worker.Sandbox)
	if len(definitions) == 0 {
		return []sandbox.RunSpec{scanner.Definition{Name: "doctor"}.Run(base)}
	}
	var runs []sandbox.RunSpec
	for i, d := range definitions {
		d.Image = images[i].Name
		runs = append(runs, d.Run(base))
	}
	return runs
}

// userName is the name of this process's user, as /etc/subuid has it.
func userName() string {
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return strconv.Itoa(os.Geteuid())
	}
	return u.Username
}

func (a *app) printChecks(checks []doctor.Check, format string) error {
	if format == "json" {
		return ui.JSON(a.stdout, struct {
			Checks []doctor.Check `json:"checks"`
		}{checks})
	}
	p := &printer{w: a.stdout}
	runtime := ""
	for _, c := range checks {
		if c.Runtime != runtime {
			runtime = c.Runtime
			p.line("%s: %s", runtime, doctor.Worst(checks, runtime))
		}
		p.line("  %-8s %-16s %s", c.Outcome, c.Name, c.Detail)
		for i, fix := range c.Fixes {
			word := "fix:"
			if i > 0 {
				word, fix = "or:", strings.TrimPrefix(fix, "or ")
			}
			p.line("%28s %-4s %s", "", word, fix)
		}
	}
	return p.err
}
