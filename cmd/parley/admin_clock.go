package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/platform/clock"
)

func (a *admin) clockCommand() *cobra.Command {
	confirm := &cobra.Command{
		Use:   "confirm",
		Short: "Let expiry go on after the clock of a database moved by more than 48 hours, because its time is right",
		Args:  cobra.NoArgs,
	}
	confirm.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		out := printed{columns: []string{"cell", "last_round", "confirmed"}, list: true}
		err := cells.Each(func(cell *app.Cell) error {
			last, now, err := cell.ConfirmClock(ctx, a.operator())
			out.rows = append(out.rows, []any{cell.Name, clock.StampOrNil(last), clock.Stamp(now)})
			return err
		})
		return out, err
	})
	return group("clock", "The clocks of the databases", confirm)
}
