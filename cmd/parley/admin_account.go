package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/provider"
)

func (a *admin) accountCommand() *cobra.Command {
	return group("account", "Business numbers", a.accountConnect(), a.accountList(), a.accountDisconnect())
}

func accountColumns() []string {
	return []string{
		"id", "phone_number_id", "phone_number", "name", "status", "status_reason", "provider_status", "customer_id", "business_account_id",
	}
}

func accountRow(account accounts.Account) []any {
	var customer *string
	if account.CustomerID != nil {
		customer = new(account.CustomerID.String())
	}
	return []any{
		account.ID, account.PhoneNumberID, account.PhoneNumber, account.Name, account.Status, account.StatusReason, account.ProviderStatus,
		customer, account.BusinessAccountID,
	}
}

// accountConnect reads the token from a file or from standard input, because every user of a
// machine can see the arguments of its processes.
func (a *admin) accountConnect() *cobra.Command {
	var draft accounts.Draft
	var team, customer, file string
	connect := func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		if err := ownerFlags(team, customer, &draft); err != nil {
			return printed{}, err
		}
		token, err := a.token(file)
		if err != nil {
			return printed{}, err
		}
		draft.Token = token
		account, err := cell.Accounts.Connect(ctx, org, a.operator(), draft)
		return one(accountColumns(), accountRow(account)...), err
	}
	command := a.sealed(a.about("connect", "Connect a business number, or give it a new token", connect))
	command.Flags().StringVar(&draft.PhoneNumberID, "phone-number-id", "", "the provider's id of the number")
	command.Flags().StringVar(&draft.BusinessAccountID, "business-account-id", "", "the provider's id of its business account")
	command.Flags().StringVar(&file, "token-file", "", "a file with the provider's token; - reads standard input")
	command.Flags().StringVar(&team, "team", "", "the team that it belongs to, when the organization has several")
	command.Flags().StringVar(&customer, "customer", "", "the customer whose number it is")
	for _, flag := range []string{"phone-number-id", "business-account-id", "token-file"} {
		_ = command.MarkFlagRequired(flag) // fails only for an unknown flag
	}
	return command
}

func ownerFlags(team, customer string, draft *accounts.Draft) error {
	if team != "" {
		draft.TeamID = new(orgs.TeamID)
		if err := draft.TeamID.UnmarshalText([]byte(team)); err != nil {
			return fmt.Errorf("--team: %q is not the id of a team", team)
		}
	}
	if customer != "" {
		draft.CustomerID = new(customers.ID)
		if err := draft.CustomerID.UnmarshalText([]byte(customer)); err != nil {
			return fmt.Errorf("--customer: %q is not the id of a customer", customer)
		}
	}
	return nil
}

const maxTokenBytes = 8 << 10

func (a *admin) token(file string) (provider.Token, error) {
	var source io.Reader = os.Stdin
	if file != "-" {
		opened, err := os.Open(file) //nolint:gosec // the operator names it
		if err != nil {
			return provider.Token{}, fmt.Errorf("--token-file: %w", err)
		}
		defer func() { _ = opened.Close() }()
		source = opened
	}
	text, err := io.ReadAll(io.LimitReader(source, maxTokenBytes))
	if err != nil {
		return provider.Token{}, fmt.Errorf("--token-file: %w", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return provider.Token{}, errors.New("--token-file: the file is empty")
	}
	return provider.NewToken(strings.TrimSpace(string(text))), nil
}

func (a *admin) accountList() *cobra.Command {
	list := func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		out := printed{columns: accountColumns(), list: true}
		slice := paging.Slice[accounts.ID]{Limit: paging.MaxLimit}
		for {
			page, err := cell.Accounts.List(ctx, org, accounts.Filter{}, slice)
			if err != nil {
				return printed{}, err
			}
			for _, account := range page.Items {
				out.rows = append(out.rows, accountRow(account))
			}
			if slice.After = page.Next; page.Next == nil {
				return out, nil
			}
		}
	}
	return a.about("list", "List business numbers in every state", list)
}

func (a *admin) accountDisconnect() *cobra.Command {
	var number string
	disconnect := func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		account, err := cell.Accounts.Disconnect(ctx, org, a.operator(), number, nil)
		return one(accountColumns(), accountRow(account)...), err
	}
	command := a.about("disconnect", "Disconnect a number, and purge all its data", disconnect)
	command.Flags().StringVar(&number, "phone-number-id", "", "the provider's id of the number")
	_ = command.MarkFlagRequired("phone-number-id") // fails only for an unknown flag
	return command
}

// sealed marks a command that seals or opens a secret, and so needs the master key.
func (a *admin) sealed(command *cobra.Command) *cobra.Command {
	run := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		config, _, err := a.config()
		if err != nil {
			return err
		}
		if len(config.MasterKey) == 0 {
			return errors.New("PARLEY_MASTER_KEY is not set: this command seals or opens secrets")
		}
		a.seals = true
		return run(command, args)
	}
	return command
}
