package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider/cloud"
)

// provider makes the client of the messaging network. All cells share it.
func (c Config) provider(now clock.Clock) (*cloud.Client, error) {
	return cloud.New(cloud.Config{
		BaseURL: c.ProviderURL, Version: c.ProviderAPI, AppID: c.ProviderAppID, AppSecrets: c.ProviderSecret,
		VerifyToken: c.ProviderVerify, SignupConfigID: c.ProviderSignup, Clock: now,
	})
}

// hasProviderApp tells whether an app at the provider is set. Callbacks and signups need one.
func (c Config) hasProviderApp() bool { return c.ProviderAppID != "" }

func (c Config) checkProvider() error {
	var mistakes []error
	if _, err := cloud.New(cloud.Config{BaseURL: c.ProviderURL}); err != nil {
		mistakes = append(mistakes, fmt.Errorf("%sPROVIDER_BASE_URL: %w", Prefix, err))
	}
	if _, err := cloud.New(cloud.Config{Version: c.ProviderAPI}); err != nil {
		mistakes = append(mistakes, fmt.Errorf("%sPROVIDER_VERSION: %w", Prefix, err))
	}
	if !c.Dev && c.ProviderURL != "" && !encryptedOrLocal(c.ProviderURL) {
		mistakes = append(mistakes, fmt.Errorf("%sPROVIDER_BASE_URL: tokens go there: use https:// unless it is on this machine", Prefix))
	}
	set := map[string]bool{
		"PROVIDER_APP_ID": c.ProviderAppID != "", "PROVIDER_VERIFY_TOKEN": c.ProviderVerify != "",
		"PROVIDER_APP_SECRET": len(c.ProviderSecret) > 0 && !slices.Contains(c.ProviderSecret, telemetry.Secret("")),
	}
	given := 0
	for _, is := range set {
		if is {
			given++
		}
	}
	for _, name := range []string{"PROVIDER_APP_ID", "PROVIDER_APP_SECRET", "PROVIDER_VERIFY_TOKEN"} {
		if given > 0 && !set[name] {
			mistakes = append(mistakes, fmt.Errorf("%s%s: missing or empty; %sPROVIDER_APP_ID, %sPROVIDER_APP_SECRET and "+
				"%sPROVIDER_VERIFY_TOKEN belong together", Prefix, name, Prefix, Prefix, Prefix))
		}
	}
	return errors.Join(mistakes...)
}

// encryptedOrLocal tells whether tokens can be sent to the address: by https, or on this machine.
func encryptedOrLocal(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "http" {
		return true // checkProvider reports other schemes and malformed addresses
	}
	return local(address)
}

// doctorProvider checks that the provider knows our app.
func doctorProvider(ctx context.Context, config Config) Finding {
	finding := Finding{Name: "provider", Found: "knows the app"}
	client, err := config.provider(nil)
	switch {
	case err != nil:
		return Finding{Name: "provider", Found: "not asked: its settings are wrong"}
	case !config.hasProviderApp():
		finding.Found = "no app is configured, so callbacks and signups are refused"
		finding.Fix, finding.Warning = "set PARLEY_PROVIDER_APP_ID, _APP_SECRET and _VERIFY_TOKEN", true
	default:
		defer client.Close()
		if err := client.CheckApp(ctx); err != nil {
			finding.Found, finding.Fix = oneLine(err), "check PARLEY_PROVIDER_BASE_URL, _APP_ID and _APP_SECRET"
		}
	}
	return finding
}
