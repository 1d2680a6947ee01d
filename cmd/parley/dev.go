package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/joho/godotenv"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

const (
	demoName    = "Parley demo"
	demoKeyName = "parley dev"
)

// demo is the data for a first request. `dev --json` prints it.
type demo struct {
	BaseURL        string `json:"base_url"`
	APIKey         string `json:"api_key"`
	OrganizationID string `json:"organization_id"`
	TeamID         string `json:"team_id"`
	UserID         string `json:"user_id"`
	PhoneNumberID  string `json:"phone_number_id,omitempty"`
	SimulatorURL   string `json:"simulator_url"`
	PublicURL      string `json:"public_url"`
}

func (p *program) devCommand() *cobra.Command {
	var address, simulated string
	var asJSON bool
	command := &cobra.Command{
		Use:   "dev",
		Short: "Everything in one process, with a demo organization, for development",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return p.dev(command.Context(), address, simulated, asJSON)
		},
	}
	command.Flags().StringVar(&address, "addr", "127.0.0.1:8080", "where the API listens")
	command.Flags().StringVar(&simulated, "simulator-addr", "",
		"where the simulator listens (default: port 8090 of this machine alone, or any when that is taken)")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object when ready")
	return command
}

// devPatience: the machine of a developer also builds and tests. An answer that takes a few seconds is better than a 503.
const devPatience = 10

func (p *program) dev(ctx context.Context, address, simulated string, asJSON bool) error {
	if err := p.devSettings(); err != nil {
		return err
	}
	// All ports are bound before anything is written to the database.
	public, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	p.environment["PARLEY_LISTEN"] = public.Addr().String()
	network, err := p.devNetwork(ctx, address, simulated)
	if err != nil {
		return err
	}
	config, logger, err := p.config()
	if err != nil {
		return err
	}
	config.Dev, config.LogTraffic = true, true
	host, err := p.devMedia(ctx, address, &config)
	if err != nil {
		return err
	}
	if err := devDatabase(ctx, config); err != nil {
		return err
	}
	process, err := app.New(ctx, config, logger, app.Options{Public: public, Media: host, Patience: devPatience})
	if err != nil {
		return err
	}
	if err := process.Cells().CheckKeys(ctx, false); err != nil {
		return err
	}
	if err := process.Cells().Migrate(ctx, func(string, int) {}); err != nil {
		return err
	}
	if err := process.Cells().CheckKeys(ctx, true); err != nil {
		return err
	}
	network.build(logger)
	group, ctx := errgroup.WithContext(ctx)
	outliving, stop := context.WithCancel(context.WithoutCancel(ctx)) // requests to the simulator can finish
	group.Go(func() error { return network.run(outliving) })
	group.Go(func() error {
		defer stop()
		ready, err := makeDemo(ctx, process.Cells(), network)
		if err != nil {
			return err
		}
		ready.SimulatorURL = network.url
		return process.Run(ctx, app.Roles{Serve: true, Work: true, Ready: func(listening string) {
			ready.PublicURL = "http://" + listening
			ready.BaseURL = ready.PublicURL + "/v1"
			network.callTo(ready.PublicURL + callbackPath)
			if err := p.welcome(ready, asJSON); err != nil {
				logger.ErrorContext(ctx, "dev.welcome", "error", err)
			}
		}})
	})
	return group.Wait()
}

// devDatabase makes the database if it is missing.
func devDatabase(ctx context.Context, config app.Config) error {
	_, err := postgres.EnsureDatabase(ctx, config.DatabaseURL.Reveal())
	switch connect := (*pgconn.ConnectError)(nil); {
	case err == nil:
		return nil
	case errors.As(err, &connect):
		return app.Unusable(err)
	default:
		return fmt.Errorf("the database of PARLEY_DATABASE_URL cannot be made: %w", err)
	}
}

// devSettings sets the settings of a developer's machine that the environment does not: from .env
// first, then from defaults.
func (p *program) devSettings() error {
	file, err := godotenv.Read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.New(".env: a line is not NAME=value") // err would print the line, which may hold a secret
	}
	for _, defaults := range []map[string]string{file, {
		"PARLEY_MASTER_KEY":      app.DevMasterKey(),
		"PARLEY_OPERATOR_LISTEN": "127.0.0.1:0",
		"PARLEY_LOG_FORMAT":      "text",
	}} {
		for name, value := range defaults {
			if _, set := p.environment[name]; !set {
				p.environment[name] = value
			}
		}
	}
	return nil
}

// devMedia has files of messages stored in a directory for each database, and served on a port of their own,
// unless the settings name a bucket.
func (p *program) devMedia(ctx context.Context, address string, config *app.Config) (net.Listener, error) {
	if config.MediaBucket != "" {
		host, err := (&net.ListenConfig{}).Listen(ctx, "tcp", config.MediaListen)
		if err != nil {
			return nil, fmt.Errorf("PARLEY_MEDIA_LISTEN: %w", err)
		}
		return host, nil
	}
	database, err := url.Parse(config.DatabaseURL.Reveal())
	if err != nil {
		return nil, errors.New("PARLEY_DATABASE_URL is not a URL") // err would print it, and it may hold a password
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	directory := filepath.Join(cache, "parley", "media", filepath.Base(database.Path))
	config.MediaBucket = telemetry.Secret("file://" + filepath.ToSlash(directory))
	host, err := listenNear(ctx, address, "8081")
	if err != nil {
		return nil, fmt.Errorf("the media host: %w", err)
	}
	config.MediaURL = "http://" + host.Addr().String()
	return host, nil
}

// makeDemo finds or creates the demo organization, and gives it a new key.
func makeDemo(ctx context.Context, cells *app.Cells, network *devNetwork) (demo, error) {
	cell, org, team, err := demoOrganization(ctx, cells)
	if err != nil {
		return demo{}, err
	}
	users, err := cell.Orgs.Users(ctx, org)
	if err != nil {
		return demo{}, err
	}
	if len(users) == 0 {
		user, err := cell.Orgs.CreateUser(ctx, org, audit.Operator(), &team, "Demo Agent", "agent@example.com")
		if err != nil {
			return demo{}, err
		}
		users = append(users, user)
	}
	number, err := network.connect(ctx, cell, org, team)
	if err != nil {
		return demo{}, err
	}
	key, err := demoKey(ctx, cell, org)
	return demo{
		APIKey: key, OrganizationID: org.String(), TeamID: team.String(), UserID: users[0].ID.String(), PhoneNumberID: number,
	}, err
}

// demoKey issues a key, and revokes those that earlier runs issued.
func demoKey(ctx context.Context, cell *app.Cell, org orgs.ID) (plaintext string, err error) {
	earlier, err := cell.Keys.List(ctx, org)
	if err != nil {
		return "", err
	}
	if _, plaintext, err = cell.Keys.Issue(ctx, org, audit.Operator(), apikeys.Draft{Name: demoKeyName}); err != nil {
		return "", err
	}
	for _, key := range earlier {
		if key.Name == demoKeyName && key.RevokedAt == nil {
			if _, err := cell.Keys.Revoke(ctx, org, audit.Operator(), key.ID); err != nil {
				return "", err
			}
		}
	}
	return plaintext, nil
}

func demoOrganization(ctx context.Context, cells *app.Cells) (home *app.Cell, org orgs.ID, team orgs.TeamID, err error) {
	err = cells.Each(func(cell *app.Cell) error {
		all, err := cell.Orgs.List(ctx)
		for _, found := range all {
			if found.Name == demoName {
				home, org = cell, found.OrgID
			}
		}
		return err
	})
	if err != nil {
		return nil, org, team, err
	}
	if home == nil {
		if home, err = cells.ForNew(ctx); err != nil {
			return nil, org, team, err
		}
		made, first, err := home.Orgs.Create(ctx, audit.Operator(), orgs.Draft{Name: demoName, Plan: "platform", TeamName: "Support"})
		return home, made.OrgID, first.ID, err
	}
	teams, err := home.Orgs.Teams(ctx, org)
	if err != nil {
		return nil, org, team, err
	}
	return home, org, teams[0].ID, nil
}

func (p *program) welcome(ready demo, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(ready)
	}
	_, err := fmt.Fprintf(p.stdout, `
Parley is running. A demo organization is ready:

  export PARLEY_URL=%s
  export PARLEY_KEY=%s
%s
Send a message:

  curl "$PARLEY_URL/%s/messages" -H "Authorization: Bearer $PARLEY_KEY" -H "Content-Type: application/json" \
    -d '{"messaging_product":"chat","to":"+15550100001","type":"text","text":{"body":"Hello"}}'

See every event in another terminal, and make one happen in a third (parley trigger --list):

  parley listen
  parley trigger message.received

%sEvery operation and event, with commands to paste:

  %s/docs

Stop with Ctrl-C.
`, ready.BaseURL, ready.APIKey, phoneExports(ready), ready.PhoneNumberID, phoneHint(ready.SimulatorURL), ready.PublicURL)
	return err
}
