package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

func (a *admin) jobsCommand() *cobra.Command {
	return group("jobs", "Jobs and rows of lanes that were set aside after failing three times in the same way", a.jobsList(), a.jobsRetry())
}

func (a *admin) jobsList() *cobra.Command {
	var limit int
	command := &cobra.Command{Use: "list", Short: "List jobs and rows that were set aside, oldest first", Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		out := printed{columns: []string{"id", "type", "kind", "cell", "organization_id", "at", "reason"}, list: true}
		err := cells.Each(func(cell *app.Cell) error {
			jobs, err := cell.Jobs.Aside(ctx, limit)
			if err != nil {
				return err
			}
			for _, job := range jobs {
				out.rows = append(out.rows, []any{job.ID, "job", job.Kind, cell.Name, nil, clock.Stamp(job.At), job.Reason})
			}
			rows, err := cell.Lanes.Aside(ctx, limit)
			for _, row := range rows {
				out.rows = append(out.rows, []any{row.ID, "row", row.Kind, cell.Name, row.OrgID, clock.Stamp(row.At), row.Class + ": " + row.Reason})
			}
			return err
		})
		return out, err
	})
	limitFlag(command, &limit, "how many of each type and cell")
	return command
}

func (a *admin) jobsRetry() *cobra.Command {
	var name, id string
	command := &cobra.Command{Use: "retry", Short: "Put a job or row back into its queue, with its failures cleared", Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		if _, err := strconv.Atoi(id); err == nil && name == "" && cells.Count() > 1 {
			return printed{}, errors.New("two cells may have a job of the same number: choose the cell with --cell")
		}
		if err := cells.CheckName(name); err != nil {
			return printed{}, err
		}
		retried := false
		err := cells.Each(func(cell *app.Cell) error {
			if name != "" && cell.Name != name {
				return nil
			}
			err := a.retry(ctx, cell, id)
			if fault.Of(err) == fault.ResourceNotFound {
				return nil
			}
			retried = retried || err == nil
			return err
		})
		if err == nil && !retried {
			err = fmt.Errorf("no job or row with the id %q was set aside", id)
		}
		return one([]string{"id", "retried"}, id, retried), err
	})
	command.Flags().StringVar(&id, "id", "", "the id that list printed")
	command.Flags().StringVar(&name, "cell", "", "the cell that list printed")
	_ = command.MarkFlagRequired("id") // fails only for an unknown flag
	return command
}

// retry puts back a job, whose id is a number, or a row of a lane. The audit log of its organization says so.
func (a *admin) retry(ctx context.Context, cell *app.Cell, id string) error {
	if number, err := strconv.ParseInt(id, 10, 64); err == nil {
		args, err := cell.Jobs.Retry(ctx, number, cell.Clock.Now())
		if err != nil {
			return err
		}
		var of struct {
			Org *orgs.ID `json:"org"`
		}
		if err := json.Unmarshal([]byte(args), &of); err != nil {
			return err
		}
		if of.Org == nil {
			return nil // a job of no organization
		}
		return cell.Audit.Record(ctx, *of.Org, a.operator(), "job.retried", id, nil)
	}
	var row ids.Any
	if err := row.UnmarshalText([]byte(id)); err != nil {
		return fmt.Errorf("%q is neither the number of a job nor the id of a row", id)
	}
	org, err := cell.Lanes.Retry(ctx, row)
	if err != nil {
		return err
	}
	return cell.Audit.Record(ctx, org, a.operator(), "lane_row.retried", id, nil)
}
