package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/worker/scan"
)

func (a *app) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: "Probe every room and then work on the queue", Args: exactly(0, ""),
		Long: `Probes every configured scanner's room before anything else, and refuses to
start when a wall does not hold. This build has no queue to work on yet, and so
ends after the probe, saying so.`,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			s, err := a.openFor(c.Context(), nil)
			if err != nil {
				return err
			}
			defer func() { err = s.end(err) }()
			rooms := scan.Rooms(s.scanners, s.base)
			a.logProbing(s, rooms)
			for _, room := range rooms {
				p, err := s.Probe(c.Context(), room)
				if err != nil {
					return err
				}
				if err := p.Err(); err != nil {
					return a.refusal(err)
				}
				a.logProbe(p)
			}
			return &statusError{ExitFailed, errors.New("this build has no job queue yet: nothing was leased; scan files with sandboxctl scan")}
		},
	}
}
