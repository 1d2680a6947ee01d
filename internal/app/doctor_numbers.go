package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// examined is how many numbers the doctor asks the provider about: those that were not
// looked at for longest.
const examined = 20

// doctorNumbers asks whether the tokens of connected numbers work and whether their
// callbacks come to us, and whether our callback address answers the provider's challenge.
func doctorNumbers(ctx context.Context, config Config) []Finding {
	if !config.hasProviderApp() || config.Check() != nil {
		return nil // said among the settings and of the provider
	}
	findings := []Finding{doctorCallback(ctx, config)}
	cells, err := OpenCells(ctx, config, CellsConfig{All: true, Conns: 2, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return findings
	}
	defer cells.Close()
	_ = cells.SyncClocks(ctx) // a database that is away was reported already
	_ = cells.Each(func(cell *Cell) error {
		all, err := cell.Accounts.Examine(ctx, examined)
		if err != nil {
			return nil //nolint:nilerr // a database that is away or empty was reported already
		}
		var refused, deaf []string
		for _, one := range all {
			switch {
			case one.ProviderError != nil:
				refused = append(refused, one.PhoneNumberID)
			case !one.Subscribed:
				deaf = append(deaf, one.PhoneNumberID)
			}
		}
		if len(all) == 0 {
			return nil
		}
		tokens := Finding{Name: "provider tokens in " + cell.Name, Found: fmt.Sprintf("%d numbers asked, all answer", len(all))}
		if len(refused) > 0 {
			tokens.Found = "refused for " + strings.Join(refused, ", ")
			tokens.Fix = "connect them again with a new token: `parley admin account connect`"
		}
		callbacks := Finding{Name: "subscriptions in " + cell.Name, Found: "all numbers asked are subscribed"}
		if len(deaf) > 0 {
			callbacks.Found, callbacks.Fix = "missing for "+strings.Join(deaf, ", "), "keep a `parley work` running: it subscribes them again"
		}
		findings = append(findings, tokens, callbacks)
		return nil
	})
	return findings
}

const (
	challengeTimeout = 5 * time.Second
	challengeBytes   = 1 << 10
)

// doctorCallback asks our own callback address as the provider does before it uses it.
func doctorCallback(ctx context.Context, config Config) Finding {
	finding := Finding{Name: "callback", Found: "answers the challenge"}
	challenge := rand.Text()
	address := strings.TrimRight(config.PublicURL, "/") + "/provider/callbacks?" + url.Values{
		"hub.mode": {"subscribe"}, "hub.challenge": {challenge}, "hub.verify_token": {config.ProviderVerify.Reveal()},
	}.Encode()
	ctx, cancel := context.WithTimeout(ctx, challengeTimeout)
	defer cancel()
	client := &http.Client{Timeout: challengeTimeout} //nolint:forbidigo // the operator's own address, not a tenant's
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	var body []byte
	if err == nil {
		var response *http.Response
		if response, err = client.Do(request); err == nil {
			body, err = io.ReadAll(io.LimitReader(response.Body, challengeBytes))
			_ = response.Body.Close()
		}
	}
	if err != nil || string(body) != challenge {
		// The cause would repeat the address, and with it the verify token.
		finding.Found = "does not answer the challenge at PARLEY_PUBLIC_URL"
		finding.Fix = "start `parley serve`, and have PARLEY_PUBLIC_URL lead to it"
	}
	return finding
}
