package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/hold"
)

func (a *admin) holdCommand() *cobra.Command {
	return group("hold", "The hold of cells that were restored from a backup", a.holdRelease())
}

func (a *admin) holdRelease() *cobra.Command {
	unsent, name := string(hold.Wait), ""
	command := &cobra.Command{
		Use:   "release",
		Short: "Decide what becomes of unsent messages, and let the cells send and deliver again",
		Long: `Decide what becomes of unsent messages, and let the cells send and deliver again.

Messages that were queued or pending when the database was restored may have been sent after the time of the backup.

  --unsent wait  They are not sent again. Callbacks prove those that were sent; the others fail after
                 PARLEY_SEND_ECHO_WAIT. Nothing is sent twice. This is the default.
  --unsent fail  They fail at once. A callback that comes later proves those that were sent. Nothing is sent twice.
  --unsent send  They are sent, except those whose attempt was under way, which wait as above. Those that were sent
                 after the time of the backup are sent twice, unless a callback has proved them during the hold.

Messages that were accepted during the hold are sent in any case. The command may be stopped and run again.`,
		Args: cobra.NoArgs,
	}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		decision := hold.Unsent(unsent)
		if decision != hold.Wait && decision != hold.Fail && decision != hold.Send {
			return printed{}, fmt.Errorf("--unsent: must be wait, fail or send; got %q", unsent)
		}
		if err := cells.CheckName(name); err != nil {
			return printed{}, err
		}
		shown := clock.StartWatch()
		released, err := cells.ReleaseHold(ctx, name, a.as, decision, func(cell string, messages int) {
			if shown.Elapsed() > progressEvery {
				shown = clock.StartWatch()
				fmt.Fprintf(a.stderr, "cell %s: %d messages\n", cell, messages)
			}
		})
		out := printed{columns: []string{"cell", "held_at", "unsent", "messages"}, list: true}
		for _, one := range released {
			out.rows = append(out.rows, []any{one.Cell, clock.Stamp(one.HeldAt), unsent, one.Messages})
		}
		return out, err
	})
	command.Flags().StringVar(&unsent, "unsent", unsent, "what becomes of unsent messages: wait, fail or send")
	command.Flags().StringVar(&name, "cell", "", "the cell; without it all that are on hold")
	return command
}
