package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/simulator"
)

// callbackPath is the path of the provider's callbacks below the public URL.
const callbackPath = "/provider/callbacks"

// devNetwork is the messaging network of `parley dev`: a simulator in this process, unless
// PARLEY_PROVIDER_BASE_URL is set.
type devNetwork struct {
	url      string
	listener net.Listener
	config   simulator.Config
	network  *simulator.Simulator
}

// devNetwork listens on the simulator's address and puts that address into the settings.
func (p *program) devNetwork(ctx context.Context, address, simulated string) (*devNetwork, error) {
	if p.environment["PARLEY_PROVIDER_BASE_URL"] != "" {
		return &devNetwork{}, nil
	}
	listener, err := listenSimulator(ctx, address, simulated)
	if err != nil {
		return nil, fmt.Errorf("the simulator: %w", err)
	}
	for name, value := range map[string]string{
		"PARLEY_PROVIDER_APP_ID": simulator.DefaultAppID, "PARLEY_PROVIDER_APP_SECRET": simulator.DefaultAppSecret,
		"PARLEY_PROVIDER_VERIFY_TOKEN": simulator.DefaultVerifyToken,
	} {
		if p.environment[name] == "" {
			p.environment[name] = value
		}
	}
	n := &devNetwork{listener: listener, url: "http://" + listener.Addr().String(), config: p.simulatorConfig()}
	n.config.BaseURL = n.url
	p.environment["PARLEY_PROVIDER_BASE_URL"] = n.url
	return n, nil
}

// listenSimulator listens on the given address, else on this machine alone: the simulator lets everyone steer it.
func listenSimulator(ctx context.Context, address, given string) (net.Listener, error) {
	if given != "" {
		return (&net.ListenConfig{}).Listen(ctx, "tcp", given)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return listenNear(ctx, net.JoinHostPort("127.0.0.1", port), "8090")
}

// listenNear listens on the host of the API, on a usual port. It takes a free port when the usual one is taken, or
// when the API takes a free one.
func listenNear(ctx context.Context, address, usual string) (net.Listener, error) {
	listen := func(where string) (net.Listener, error) { return (&net.ListenConfig{}).Listen(ctx, "tcp", where) }
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if port != "0" {
		if listener, err := listen(net.JoinHostPort(host, usual)); err == nil {
			return listener, nil
		}
	}
	return listen(net.JoinHostPort(host, "0"))
}

// build creates the simulator, once there is a logger for it.
func (n *devNetwork) build(logger *slog.Logger) {
	if n.listener == nil {
		return
	}
	n.config.Logger = logger
	n.network = simulator.New(n.config)
}

func (n *devNetwork) run(ctx context.Context) error {
	if n.network == nil {
		return nil
	}
	return serveNetwork(ctx, n.listener, n.network)
}

// callTo makes the simulator send its callbacks to the API, whose address is known only once it
// listens.
func (n *devNetwork) callTo(address string) {
	if n.network != nil {
		n.network.SetCallbackURL(address)
	}
}

// connect connects the simulator's number to the demo organization and syncs its templates. It
// does nothing when the number is connected to another organization, or without our simulator.
func (n *devNetwork) connect(ctx context.Context, cell *app.Cell, org orgs.ID, team orgs.TeamID) (string, error) {
	if n.network == nil {
		return "", nil
	}
	token := n.config.Token
	if token == "" {
		token = simulator.DefaultToken
	}
	account, err := cell.Accounts.Connect(ctx, org, audit.Operator(), accounts.Draft{
		TeamID: &team, BusinessAccountID: simulator.DefaultAccountID, PhoneNumberID: simulator.DefaultPhoneNumberID,
		Token: provider.NewToken(token),
	})
	if fault.Of(err) == fault.AlreadyExists {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the demo number: %w", err)
	}
	_, err = cell.Templates.Sync(ctx, org, account)
	return *account.PhoneNumberID, err
}

// phoneExports are the variables of the quickstart that concern the simulated network.
func phoneExports(ready demo) string {
	if ready.SimulatorURL == "" {
		return ""
	}
	return fmt.Sprintf("  export PARLEY_NUMBER=%s\n  export PARLEY_PHONE=%s\n", ready.PhoneNumberID, ready.SimulatorURL)
}

func phoneHint(simulatorURL string) string {
	if simulatorURL == "" {
		return ""
	}
	return strings.Join([]string{
		"The messaging network is simulated. Hold a user's phone, and steer the network (docs/guides/simulator.md):", "",
		"  " + simulatorURL + "/", "", "",
	}, "\n")
}
