package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/simulator"
)

func (p *program) simulatorCommand() *cobra.Command {
	var address string
	config := p.simulatorConfig()
	command := &cobra.Command{
		Use:   "simulator",
		Short: "The messaging network's stand-in: its API, a phone in the browser, and /sim to steer it",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return p.simulate(command.Context(), address, config)
		},
	}
	flags := command.Flags()
	flags.StringVar(&address, "addr", "127.0.0.1:8090", "where it listens")
	flags.StringVar(&config.BaseURL, "base-url", "", "how clients reach it, for media URLs (default: as they address it)")
	flags.StringVar(&config.CallbackURL, "callback-url", "", "where callbacks go, such as http://127.0.0.1:8080/provider/callbacks")
	flags.StringVar(&config.Token, "token", "", "the access token of the first app (default: "+simulator.DefaultToken+")")
	flags.Uint64Var(&config.Seed, "seed", 0, "makes shuffling, duplication and loss repeatable")
	return command
}

// simulatorConfig gives the simulator's first app the id, secret and tokens of our settings.
func (p *program) simulatorConfig() simulator.Config {
	secret, _, _ := strings.Cut(p.environment["PARLEY_PROVIDER_APP_SECRET"], ",") // the first is the one in use
	return simulator.Config{
		AppID: p.environment["PARLEY_PROVIDER_APP_ID"], AppSecret: secret, VerifyToken: p.environment["PARLEY_PROVIDER_VERIFY_TOKEN"],
	}
}

func (p *program) simulate(ctx context.Context, address string, config simulator.Config) error {
	_, logger, err := p.config()
	if err != nil {
		return err
	}
	if config.CallbackURL != "" {
		if err := simulator.CheckCallbackURL(config.CallbackURL); err != nil {
			return fmt.Errorf("--callback-url %w", err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	reachable := "http://" + listener.Addr().String()
	config.Logger = logger
	fmt.Fprintf(p.stdout,
		"The simulator listens on %s\n\n  phone page  %s/\n  control     %s/sim (docs/guides/simulator.md)\n  number      %s\n",
		reachable, reachable, reachable, simulator.DefaultPhoneNumberID)
	return serveNetwork(ctx, listener, simulator.New(config))
}

// serveNetwork serves the simulator, and sends its callbacks, until ctx ends.
func serveNetwork(ctx context.Context, listener net.Listener, network *simulator.Simulator) error {
	// No write timeout, because the phone page keeps a response open for its events.
	server := &http.Server{Handler: network.Handler(), ReadHeaderTimeout: 5 * time.Second}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return network.Run(ctx) })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return server.Shutdown(stopping)
	})
	return group.Wait()
}
