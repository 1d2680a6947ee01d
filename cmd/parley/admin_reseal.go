package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// progressEvery is how often a long command says how far it is.
const progressEvery = 2 * time.Second

func (a *admin) resealCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "reseal",
		Short: "Seal every stored token and secret under the newest master key, so that the older ones can be dropped",
		Args:  cobra.NoArgs,
	}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		shown := clock.StartWatch()
		all, err := cells.Reseal(ctx, a.operator(), func(cell string, so app.Resealed) {
			if shown.Elapsed() > progressEvery {
				shown = clock.StartWatch()
				fmt.Fprintf(a.stderr, "cell %s: %d values\n", cell, so.Values)
			}
		})
		out := printed{columns: []string{"cell", "resealed"}, list: true}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			out.rows = append(out.rows, []any{name, all[name].Values})
			for _, org := range all[name].Frozen {
				err = errors.Join(err, fmt.Errorf("organization %s is being moved: run this again before a key is dropped", org))
			}
		}
		return out, err
	})
	return a.sealed(command)
}
