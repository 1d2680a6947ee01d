// Command parley runs, migrates and administers the platform.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

func main() { os.Exit(exitCode()) }

func exitCode() int {
	app.CollectLess()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "parley:", err)
		return 1
	}
	return 0
}

// program has the environment and outputs that every command uses.
type program struct {
	environment    map[string]string
	stdout, stderr io.Writer
}

func run(ctx context.Context, args, environment []string, stdout, stderr io.Writer) error {
	p := &program{environment: map[string]string{}, stdout: stdout, stderr: stderr}
	for _, entry := range environment {
		if name, value, found := strings.Cut(entry, "="); found {
			p.environment[name] = value
		}
	}
	root := &cobra.Command{
		Use:           "parley",
		Short:         "A messaging platform API: send messages, receive signed webhooks, share an inbox",
		Version:       app.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(p.serveCommand(), p.workCommand(), p.migrateCommand(), p.devCommand(), p.adminCommand(),
		p.webhooksCommand(), p.listenCommand(), p.triggerCommand(), p.simulatorCommand(), p.doctorCommand())
	return root.ExecuteContext(ctx)
}

// config reads the settings and makes the logger. It does not check the settings: app.New does. With
// an invalid log level or format it makes the default logger, so that the check can report it.
func (p *program) config() (app.Config, *slog.Logger, error) {
	config := app.ReadConfig(p.environment)
	logger, err := telemetry.NewLogger(p.stderr, config.LogLevel, config.LogFormat)
	if err != nil {
		logger, err = telemetry.NewLogger(p.stderr, "info", "json")
	}
	return config, logger, err
}

// group is a command that only has subcommands. Without one of them it fails.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs}
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%q is not a command of %s; see `%s --help`", args[0], command.CommandPath(), command.CommandPath())
		}
		return fmt.Errorf("%s needs a command; see `%s --help`", command.CommandPath(), command.CommandPath())
	}
	command.AddCommand(commands...)
	return command
}
