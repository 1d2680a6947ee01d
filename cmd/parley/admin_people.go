package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/orgs"
)

// about makes a command for one organization, with the flag --org.
func (a *admin) about(use, short string, do func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error)) *cobra.Command {
	var org orgFlag
	command := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
	command.RunE = a.act(func(ctx context.Context, cells *app.Cells) (printed, error) {
		cell, id, err := org.cell(ctx, cells)
		if err != nil {
			return printed{}, err
		}
		return do(ctx, cell, id)
	})
	org.add(command)
	return command
}

func (a *admin) teamCommand() *cobra.Command {
	var name string
	create := a.about("create", "Add a team", func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		team, err := cell.Orgs.CreateTeam(ctx, org, a.operator(), name)
		return one([]string{"id", "name"}, team.ID, team.Name), err
	})
	create.Flags().StringVar(&name, "name", "", "its name")
	list := a.about("list", "List teams", func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		teams, err := cell.Orgs.Teams(ctx, org)
		out := printed{columns: []string{"id", "name"}, list: true}
		for _, team := range teams {
			out.rows = append(out.rows, []any{team.ID, team.Name})
		}
		return out, err
	})
	return group("team", "Teams", create, list)
}

func (a *admin) userCommand() *cobra.Command {
	var name, email, team string
	create := a.about("create", "Add a person to a team", func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		var member *orgs.TeamID
		if team != "" {
			member = new(orgs.TeamID)
			if err := member.UnmarshalText([]byte(team)); err != nil {
				return printed{}, fmt.Errorf("--team: %q is not the id of a team", team)
			}
		}
		user, err := cell.Orgs.CreateUser(ctx, org, a.operator(), member, name, email)
		return one([]string{"id", "name", "email"}, user.ID, user.Name, user.Email), err
	})
	create.Flags().StringVar(&name, "name", "", "their name")
	create.Flags().StringVar(&email, "email", "", "their address")
	create.Flags().StringVar(&team, "team", "", "the team's id (needed when there are several)")
	list := a.about("list", "List users", func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		users, err := cell.Orgs.Users(ctx, org)
		out := printed{columns: []string{"id", "name", "email"}, list: true}
		for _, user := range users {
			out.rows = append(out.rows, []any{user.ID, user.Name, user.Email})
		}
		return out, err
	})
	return group("user", "Users", create, list)
}
