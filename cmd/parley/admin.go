package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// admin is the command line of an operator: it works on the database directly.
type admin struct {
	*program

	asJSON bool
	// as is the name of the person who runs the command, for the audit log.
	as string
	// seals is set by the few commands that need the master key.
	seals bool
}

func (p *program) adminCommand() *cobra.Command {
	a := &admin{program: p}
	root := group("admin", "Administer organizations, teams, users, keys, customers and numbers",
		a.orgCommand(), a.teamCommand(), a.userCommand(), a.keyCommand(), a.customerCommand(), a.accountCommand(),
		a.auditCommand(), a.logsCommand(), a.callbacksCommand(), a.jobsCommand(), a.resealCommand(),
		a.clockCommand(), a.holdCommand())
	root.PersistentFlags().StringVar(&a.as, "as", osUser(), "your name, for the audit log")
	root.PersistentFlags().BoolVar(&a.asJSON, "json", false, "print JSON for scripts")
	return root
}

// osUser is the name of the operating system's user, or empty if it is unknown.
func osUser() string {
	if current, err := user.Current(); err == nil {
		return current.Username
	}
	return ""
}

// operator is the principal of the command.
func (a *admin) operator() audit.Principal { return audit.OperatorNamed(a.as) }

// commandWait is how long a command waits for a connection. A request gives up sooner, because its caller can repeat it.
const commandWait = 10 * time.Second

// openCells opens every cell for one command. Only commands that seal or open secrets need the
// master key; the others work without it.
func (p *program) openCells(ctx context.Context, seals bool) (*app.Cells, error) {
	config, logger, err := p.config()
	if err != nil {
		return nil, err
	}
	if !seals {
		config.MasterKey = nil
	}
	return app.OpenCells(ctx, config, app.CellsConfig{All: true, Conns: 2, AcquireWait: commandWait, Logger: logger})
}

// act makes the function of a command: it opens the cells, calls do and prints the result, as a
// table or as JSON.
func (a *admin) act(do func(ctx context.Context, cells *app.Cells) (printed, error)) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, _ []string) error {
		cells, err := a.openCells(command.Context(), a.seals)
		if err != nil {
			return err
		}
		defer cells.Close()
		if err := cells.SyncClocks(command.Context()); err != nil {
			return cells.Explain(command.Context(), err)
		}
		if err := cells.CheckKeys(command.Context(), true); err != nil {
			return cells.Explain(command.Context(), err)
		}
		out, err := do(command.Context(), cells)
		if err != nil {
			return cells.Explain(command.Context(), err)
		}
		return a.print(out)
	}
}

// printed is the output of a command.
type printed struct {
	columns []string
	rows    [][]any
	// list prints an array in JSON; otherwise the first row is printed as one object.
	list bool
}

func one(columns []string, values ...any) printed {
	return printed{columns: columns, rows: [][]any{values}}
}

func (a *admin) print(out printed) error {
	if !a.asJSON {
		table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, strings.ToUpper(strings.Join(out.columns, "\t")))
		for _, row := range out.rows {
			cells := make([]string, len(row))
			for i, value := range row {
				cells[i] = cellText(value)
			}
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
		return table.Flush()
	}
	objects := make([]map[string]any, len(out.rows))
	for i, row := range out.rows {
		objects[i] = map[string]any{}
		for j, value := range row {
			objects[i][out.columns[j]] = value
		}
	}
	encoder := json.NewEncoder(a.stdout)
	if !out.list {
		return encoder.Encode(objects[0])
	}
	return encoder.Encode(objects)
}

func cellText(value any) string {
	switch v := value.(type) {
	case *clock.Stamp:
		if v == nil {
			return "-"
		}
		return v.String()
	case json.RawMessage:
		return string(v)
	case *string:
		if v == nil {
			return "-"
		}
		return *v
	default:
		return fmt.Sprint(v)
	}
}

// orgFlag is the flag --org.
type orgFlag struct{ text string }

func (f *orgFlag) add(command *cobra.Command) {
	command.Flags().StringVar(&f.text, "org", "", "the organization's id")
	_ = command.MarkFlagRequired("org") // fails only for an unknown flag
}

func (f *orgFlag) id() (orgs.ID, error) {
	var id orgs.ID
	if err := id.UnmarshalText([]byte(f.text)); err != nil {
		return id, fmt.Errorf("--org: %q is not the id of an organization", f.text)
	}
	return id, nil
}

// cell is the organization's cell.
func (f *orgFlag) cell(ctx context.Context, cells *app.Cells) (*app.Cell, orgs.ID, error) {
	id, err := f.id()
	if err != nil {
		return nil, id, err
	}
	cell, err := cells.Of(ctx, id)
	return cell, id, err
}

// limitFlag adds --limit, a number from 1 on.
func limitFlag(command *cobra.Command, limit *int, usage string) {
	*limit = defaultLimit
	command.Flags().Var((*countValue)(limit), "limit", usage)
}

const defaultLimit = 100

// countValue is a flag whose value is a number from 1 on.
type countValue int

func (c *countValue) String() string { return strconv.Itoa(int(*c)) }
func (c *countValue) Type() string   { return "number" }

// Set reads the value.
func (c *countValue) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return errors.New("must be a number from 1 on")
	}
	*c = countValue(number)
	return nil
}

// parseTime reads an optional time flag.
func parseTime(flag, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // an absent flag
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fmt.Errorf("--%s: %q is not a time like 2026-12-31T00:00:00Z", flag, text)
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t, nil
}
