package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
)

func (a *admin) customerCommand() *cobra.Command {
	return group("customer", "End-customers", a.customerRestore())
}

func (a *admin) customerRestore() *cobra.Command {
	var text string
	restore := func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		var id customers.ID
		if err := id.UnmarshalText([]byte(text)); err != nil {
			return printed{}, fmt.Errorf("--customer: %q is not the id of a customer", text)
		}
		customer, err := cell.Customers.Restore(ctx, org, a.operator(), id)
		return one([]string{"id", "name", "status"}, customer.ID, customer.Name, customer.Status), err
	}
	command := a.about("restore", "Restore an archived customer with the status it had", restore)
	command.Flags().StringVar(&text, "customer", "", "the customer's id")
	_ = command.MarkFlagRequired("customer") // fails only for an unknown flag
	return command
}
