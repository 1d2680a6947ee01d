package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
)

func (p *program) serveCommand() *cobra.Command {
	var work, hold bool
	command := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API, the provider's callbacks and the files of messages",
		Long: `Serve the API, the provider's callbacks and the files of messages.

Messages are sent, callbacks applied and webhooks delivered by "parley work", or here with --work. Settings are
environment variables (docs/operations.md); "parley doctor" checks them. The API listens on PARLEY_LISTEN
(127.0.0.1:8080), /readyz and /metrics on PARLEY_OPERATOR_LISTEN (127.0.0.1:9090).`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return p.runRoles(command, app.Roles{Serve: true, Work: work, Hold: holder(hold)})
		},
	}
	command.Flags().BoolVar(&work, "work", false, "do the background work in the same process")
	holdFlag(command, &hold)
	return command
}

func holdFlag(command *cobra.Command, hold *bool) {
	command.Flags().BoolVar(hold, "hold", false,
		"after a restore: no process sends or delivers anything before \"parley admin hold release\"")
}

// holder is the operator who holds the cells, or "".
func holder(hold bool) string {
	if !hold {
		return ""
	}
	return cmp.Or(osUser(), "unknown")
}

func (p *program) workCommand() *cobra.Command {
	var hold bool
	command := &cobra.Command{
		Use:   "work",
		Short: "Send messages, apply callbacks, deliver webhooks, and keep the databases in order",
		Long: `Send messages, apply callbacks, deliver webhooks, and keep the databases in order.

Run as many of them as there is work for. Settings are those of "parley serve" (docs/operations.md). /readyz and /metrics
listen on PARLEY_OPERATOR_LISTEN (127.0.0.1:9091).`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return p.runRoles(command, app.Roles{Work: true, Hold: holder(hold)})
		},
	}
	holdFlag(command, &hold)
	return command
}

func (p *program) runRoles(command *cobra.Command, roles app.Roles) error {
	config, logger, err := p.config()
	if err != nil {
		return err
	}
	process, err := app.New(command.Context(), config, logger, app.Options{})
	if err != nil {
		return err
	}
	return process.Run(command.Context(), roles)
}

func (p *program) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Make or change the tables of all databases; safe to run twice, and while the old version serves",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cells, err := p.openCells(command.Context(), true)
			if err != nil {
				return err
			}
			defer cells.Close()
			err = cells.CheckKeys(command.Context(), false)
			if err == nil {
				err = cells.Migrate(command.Context(), func(name string, applied int) {
					fmt.Fprintf(p.stdout, "%s: %d migrations applied\n", name, applied)
				})
			}
			return cells.Explain(command.Context(), err)
		},
	}
}
