package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
	"github.com/batleforc/batlehub-sandbox/worker/scan"
)

func (a *app) probeCommand() *cobra.Command {
	var names []string
	var format string
	c := &cobra.Command{
		Use: "probe", Short: "Assert the walls of every room from inside", Args: exactly(0, ""),
		Long: `Makes one sandbox per room and asserts its walls from inside. Exit status: 0 if
every wall holds (runtime "none" has none to probe, and says so), 3 if one does
not or a sandbox never started.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.probe(c, names, format) },
	}
	c.Flags().StringArrayVar(&names, "scanner", nil, "`name` of a scanner whose room is probed; may be given more than once (default: all that are configured)")
	c.Flags().StringVar(&format, "format", "table", "`form` of the output: table or json")
	return c
}

func (a *app) probe(c *cobra.Command, names []string, format string) (err error) {
	if err := checkFormat(format); err != nil {
		return err
	}
	s, err := a.openFor(c.Context(), names)
	if err != nil {
		return err
	}
	defer func() { err = s.end(err) }()
	progress := ui.NewProgress(a.stderr)
	defer progress.Stop()
	rooms, failed := []scan.Room{}, error(nil)
	for _, room := range scan.Rooms(s.scanners, s.base) {
		progress.Start("probing " + scan.RoomName(room))
		p, err := s.Probe(c.Context(), room)
		progress.Stop()
		if err != nil {
			return err
		}
		if c.Context().Err() != nil {
			return context.Cause(c.Context())
		}
		rooms = append(rooms, scan.RoomOf(p))
		if failed = p.Err(); failed != nil {
			break
		}
	}
	if err := a.printRooms(s.Name(), rooms, format); err != nil {
		return err
	}
	if failed != nil {
		return a.refusal(failed)
	}
	return nil
}

// printRooms prints the rooms. A table leaves a failed one that never started
// to the refusal, which says it all.
func (a *app) printRooms(runtime string, rooms []scan.Room, format string) error {
	if format == "json" {
		return ui.JSON(a.stdout, struct {
			Runtime string      `json:"runtime"`
			Rooms   []scan.Room `json:"rooms"`
		}{runtime, rooms})
	}
	p := &printer{w: a.stdout}
	for _, r := range rooms {
		if r.Error == "" || len(r.Verdicts) > 1 {
			p.room(runtime, r)
		}
	}
	return p.err
}
