package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
)

func (a *admin) orgCommand() *cobra.Command {
	return group("org", "Organizations", a.orgCreate(), a.orgList(), a.orgSet(), a.orgMove(),
		a.orgSwitch("suspend", "Block every request of an organization", (*orgs.Service).Suspend),
		a.orgSwitch("resume", "Lift a suspension", (*orgs.Service).Resume))
}

func (a *admin) orgCreate() *cobra.Command {
	draft := orgs.Draft{}
	var trialEnds string
	command := &cobra.Command{Use: "create", Short: "Create an organization with its first team", Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		var err error
		if draft.TrialEndsAt, err = parseTime("trial-ends-at", trialEnds); err != nil {
			return printed{}, err
		}
		cell, err := cells.ForNew(ctx)
		if err != nil {
			return printed{}, err
		}
		if err := checkPlan(ctx, cell, draft.Plan); err != nil {
			return printed{}, err
		}
		org, team, err := cell.Orgs.Create(ctx, a.operator(), draft)
		return one([]string{"id", "team_id"}, org.OrgID, team.ID), err
	})
	command.Flags().StringVar(&draft.Name, "name", "", "its name")
	command.Flags().StringVar(&draft.Plan, "plan", "starter", planUsage)
	command.Flags().StringVar(&draft.TeamName, "team", "", "the name of its first team (default: the organization's)")
	command.Flags().StringVar(&trialEnds, "trial-ends-at", "", "start as a trial that ends at this time, like 2026-12-31T00:00:00Z")
	_ = command.MarkFlagRequired("name") // fails only for an unknown flag
	return command
}

// planUsage names the plans that a new database has. An operator can change them in the table plans.
const planUsage = "free (no API), starter, growth or platform (customers, too), or a plan that you added to the table plans"

// checkPlan names the plans of the cell if it does not have this one.
func checkPlan(ctx context.Context, cell *app.Cell, name string) error {
	plans, err := cell.Plans(ctx)
	if err != nil || slices.Contains(plans, name) {
		return err
	}
	return fmt.Errorf("--plan: there is no plan %q; the plans are %s", name, strings.Join(plans, ", "))
}

func organizationColumns() []string {
	return []string{"id", "name", "plan", "subscription_status", "trial_ends_at", "suspended_at", "require_opt_in", "stop_keywords"}
}

func organizationRow(o orgs.Organization) []any {
	return []any{
		o.OrgID, o.Name, o.Plan, o.SubscriptionStatus, clock.StampOrNil(o.TrialEndsAt), clock.StampOrNil(o.SuspendedAt),
		o.RequireOptIn, o.StopKeywords,
	}
}

func (a *admin) orgList() *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List organizations", Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		out := printed{columns: append(organizationColumns(), "cell", "frozen_at"), list: true}
		err := cells.Each(func(cell *app.Cell) error {
			all, err := cell.Orgs.List(ctx)
			for _, org := range all {
				if org.FrozenAt != nil {
					home, err := cells.Directory.HomeOf(ctx, org.OrgID)
					if err != nil {
						return err
					}
					if home.Cell != cell.Name {
						continue // the copy that a move left, until it is purged
					}
				}
				out.rows = append(out.rows, append(organizationRow(org), cell.Name, clock.StampOrNil(org.FrozenAt)))
			}
			return err
		})
		return out, err
	})
	return command
}

func (a *admin) orgSet() *cobra.Command {
	var org orgFlag
	var plan, subscription, trialEnds, requireOptIn, stopKeywords string
	command := &cobra.Command{Use: "set", Short: "Change plan, subscription or policy", Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		cell, id, err := org.cell(ctx, cells)
		if err != nil {
			return printed{}, err
		}
		change := orgs.Change{}
		given := command.Flags().Changed
		if given("plan") {
			change.Plan = &plan
			if err := checkPlan(ctx, cell, plan); err != nil {
				return printed{}, err
			}
		}
		if given("subscription") {
			state := orgs.Subscription(subscription)
			change.Subscription = &state
		}
		if change.TrialEndsAt, err = parseTime("trial-ends-at", trialEnds); err != nil {
			return printed{}, err
		}
		if given("require-opt-in") {
			on := requireOptIn == "on"
			if !on && requireOptIn != "off" {
				return printed{}, fmt.Errorf("--require-opt-in: %q is not on or off", requireOptIn)
			}
			change.RequireOptIn = &on
		}
		if given("stop-keywords") {
			words := strings.FieldsFunc(stopKeywords, func(r rune) bool { return r == ',' })
			change.StopKeywords = &words
		}
		changed, err := cell.Orgs.Set(ctx, id, a.operator(), change)
		return printed{columns: organizationColumns(), rows: [][]any{organizationRow(changed)}}, err
	})
	org.add(command)
	command.Flags().StringVar(&plan, "plan", "", planUsage)
	command.Flags().StringVar(&subscription, "subscription", "", "trialing, active or inactive")
	command.Flags().StringVar(&trialEnds, "trial-ends-at", "", "when its trial ends, like 2026-12-31T00:00:00Z")
	command.Flags().StringVar(&requireOptIn, "require-opt-in", "", "on or off: marketing templates need an opt-in")
	command.Flags().StringVar(&stopKeywords, "stop-keywords", "", "words that opt a contact out, separated by commas")
	return command
}

func (a *admin) orgSwitch(
	use, short string, verb func(*orgs.Service, context.Context, orgs.ID, audit.Principal) (orgs.Organization, error),
) *cobra.Command {
	var org orgFlag
	command := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		cell, id, err := org.cell(ctx, cells)
		if err != nil {
			return printed{}, err
		}
		changed, err := verb(cell.Orgs, ctx, id, a.operator())
		return printed{columns: organizationColumns(), rows: [][]any{organizationRow(changed)}}, err
	})
	org.add(command)
	return command
}

func (a *admin) orgMove() *cobra.Command {
	var org orgFlag
	var to string
	command := &cobra.Command{Use: "move", Short: "Move an organization to another cell; its requests get 503 meanwhile", Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		id, err := org.id()
		if err != nil {
			return printed{}, err
		}
		moved, err := cells.Move(ctx, id, a.operator(), to)
		rows := int64(0)
		for _, n := range moved.Rows {
			rows += n
		}
		columns := []string{"id", "from", "to", "rows", "late", "paused_ms"}
		return one(columns, id, moved.From, moved.To, rows, moved.Late, moved.Paused.Milliseconds()), err
	})
	org.add(command)
	command.Flags().StringVar(&to, "to", "", "the name of the cell")
	_ = command.MarkFlagRequired("to") // fails only for an unknown flag
	return command
}
