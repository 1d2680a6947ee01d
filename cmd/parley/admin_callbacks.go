package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
)

func (a *admin) callbacksCommand() *cobra.Command {
	return group("callbacks", "Callbacks of the provider that were not applied", a.callbacksList(), a.callbacksReprocess())
}

// quarantined is the state of a body whose number no organization has. The directory stores it.
const quarantined callbacks.State = "quarantined"

// chosen are the flags that choose callbacks.
type chosen struct {
	state string
	ids   []string
	limit int
}

func (c *chosen) flags(command *cobra.Command) {
	command.Flags().StringVar(&c.state, "state", "",
		"only these: quarantined (no organization has the number), unhandled (no consumer takes such items yet), dead (failed)")
	command.Flags().StringSliceVar(&c.ids, "id", nil, "only these ids, as list printed them")
	limitFlag(command, &c.limit, "how many of each state and cell")
}

// wants tells whether one of the states is chosen.
func (c *chosen) wants(states ...callbacks.State) bool {
	return c.state == "" || slices.Contains(states, callbacks.State(c.state))
}

// parse divides the ids into items, which cells store, and quarantined bodies, which the directory
// stores.
func (c *chosen) parse() (items []callbacks.ID, parked []directory.QuarantineID, err error) {
	if !c.wants(quarantined, callbacks.Unhandled, callbacks.Dead) {
		return nil, nil, fmt.Errorf("--state: %q is not quarantined, unhandled or dead", c.state)
	}
	for _, text := range c.ids {
		item, notItem := ids.Parse[callbacks.Kind](text)
		one, notParked := ids.Parse[directory.QuarantineKind](text)
		switch {
		case notItem == nil:
			items = append(items, item)
		case notParked == nil:
			parked = append(parked, one)
		default:
			return nil, nil, fmt.Errorf("--id: %q is not an id that `list` prints", text)
		}
	}
	return items, parked, nil
}

// filter is the filter for each cell. It returns false when no items of cells are chosen.
func (c *chosen) filter(items []callbacks.ID) (callbacks.Filter, bool) {
	wanted := c.wants(callbacks.Unhandled, callbacks.Dead) && (len(c.ids) == 0 || len(items) > 0)
	return callbacks.Filter{State: callbacks.State(c.state), IDs: items, Limit: c.limit}, wanted
}

// quarantined reads the chosen bodies of the directory.
func (c *chosen) quarantined(ctx context.Context, cells *app.Cells, parked []directory.QuarantineID) ([]directory.Quarantined, error) {
	if !c.wants(quarantined) || len(c.ids) > 0 && len(parked) == 0 {
		return nil, nil
	}
	return cells.Directory.Quarantined(ctx, c.limit, parked...)
}

func (a *admin) callbacksList() *cobra.Command {
	var chosen chosen
	command := &cobra.Command{Use: "list", Short: "List callbacks that were not applied, newest first", Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		out := printed{
			columns: []string{"id", "state", "cell", "organization_id", "phone_number_id", "business_account_id", "field", "at", "reason"},
			list:    true,
		}
		items, parked, err := chosen.parse()
		if err != nil {
			return out, err
		}
		unowned, err := chosen.quarantined(ctx, cells, parked)
		if err != nil {
			return out, err
		}
		for _, one := range unowned {
			out.rows = append(out.rows, []any{
				one.ID, quarantined, nil, nil, one.PhoneNumberID, one.BusinessAccountID, nil, clock.Stamp(one.ID.CreatedAt()), one.Reason,
			})
		}
		filter, wanted := chosen.filter(items)
		if !wanted {
			return out, nil
		}
		return out, cells.Each(func(cell *app.Cell) error {
			aside, err := cell.Callbacks.List(ctx, filter)
			for _, one := range aside {
				out.rows = append(out.rows, []any{
					one.ID, one.State, cell.Name, one.OrgID, one.PhoneNumberID, one.BusinessAccountID, one.Field,
					clock.Stamp(one.ID.CreatedAt()), one.Reason,
				})
			}
			return err
		})
	})
	chosen.flags(command)
	return command
}

// explain says what an operator can do about the reasons for which a callback stays in quarantine.
func explain(reasons []string) string {
	texts := make([]string, len(reasons))
	for i, reason := range reasons {
		switch reason {
		case "connected_later":
			texts[i] = reason + " (its number or business account was connected after it came, so it may belong to an earlier owner)"
		case "unknown_number", "unknown_account":
			texts[i] = reason + " (no organization has it)"
		default:
			texts[i] = reason + " (it cannot be applied)"
		}
	}
	return strings.Join(texts, ", ")
}

func (a *admin) callbacksReprocess() *cobra.Command {
	var chosen chosen
	command := &cobra.Command{Use: "reprocess", Short: "Apply callbacks again", Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		if chosen.state == "" && len(chosen.ids) == 0 {
			return printed{}, errors.New("choose callbacks with --state or --id")
		}
		items, parked, err := chosen.parse()
		if err != nil {
			return printed{}, err
		}
		unowned, err := chosen.quarantined(ctx, cells, parked)
		if err != nil {
			return printed{}, err
		}
		count, declined, err := cells.Ingress(slog.New(slog.DiscardHandler)).Reprocess(ctx, unowned)
		for _, body := range declined {
			fmt.Fprintf(a.stderr, "%s stays in quarantine, under a new id: %s\n", body.ID, explain(body.Reasons))
		}
		if err != nil {
			return printed{}, err
		}
		tried := count + len(declined)
		if filter, wanted := chosen.filter(items); wanted {
			err = cells.Each(func(cell *app.Cell) error {
				again, err := cell.Callbacks.Reprocess(ctx, a.operator(), filter)
				count, tried = count+again, tried+again
				return err
			})
		}
		if missing := len(chosen.ids) - tried; err == nil && missing > 0 {
			fmt.Fprintf(a.stderr, "%d of the ids were not found: they were applied already, have expired, or are in another state\n", missing)
		}
		return one([]string{"reprocessed", "declined"}, count, len(declined)), err
	})
	chosen.flags(command)
	return command
}
