package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// examined is how many numbers of a cell the doctor checks with the provider: those whose last
// check is the oldest.
const examined = 20

// doctorNumbers checks that the tokens of connected numbers work, and that the numbers are subscribed to our callbacks.
func doctorNumbers(ctx context.Context, cells *Cells) (findings []Finding) {
	_ = cells.Each(func(cell *Cell) error {
		all, err := cell.Accounts.Examine(ctx, examined)
		if err != nil {
			return nil //nolint:nilerr // a database that is down or empty was reported already
		}
		var refused, unsubscribed []string
		for _, one := range all {
			switch {
			case one.ProviderError != nil:
				refused = append(refused, one.PhoneNumberID)
			case !one.Subscribed:
				unsubscribed = append(unsubscribed, one.PhoneNumberID)
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
		if len(unsubscribed) > 0 {
			callbacks.Found = "missing for " + strings.Join(unsubscribed, ", ")
			callbacks.Fix = "keep a `parley work` running: it subscribes them again"
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

// doctorCallback sends our callback address the challenge that the provider sends before it uses
// the address.
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
		// err is left out: it contains the address, and the address contains the verify token.
		finding.Found = "does not answer the challenge at PARLEY_PUBLIC_URL"
		finding.Fix = "start `parley serve`, and have PARLEY_PUBLIC_URL lead to it"
	}
	return finding
}
