package app

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// Config is every setting, read from the environment in this one place.
type Config struct {
	Listen         string             `env:"LISTEN"           envDefault:"127.0.0.1:8080"`
	OperatorListen string             `env:"OPERATOR_LISTEN"  envDefault:"127.0.0.1:9090"`
	TrustedProxies []netip.Prefix     `env:"TRUSTED_PROXIES"`
	DatabaseURL    telemetry.Secret   `env:"DATABASE_URL"     envDefault:"postgres://127.0.0.1:5432/parley"`
	DirectoryURL   telemetry.Secret   `env:"DIRECTORY_DATABASE_URL"`
	Cells          []string           `env:"CELLS"`
	DatabaseConns  int32              `env:"DATABASE_CONNS"   envDefault:"16"`
	RedisURL       telemetry.Secret   `env:"REDIS_URL"`
	PublicURL      string             `env:"PUBLIC_URL"`
	MasterKey      []telemetry.Secret `env:"MASTER_KEY"`
	WebhookNets    []netip.Prefix     `env:"WEBHOOK_ALLOW_NETWORKS"`
	WebhookCAFile  string             `env:"WEBHOOK_CA_FILE"`
	WebhookRate    int                `env:"WEBHOOK_HOST_RATE" envDefault:"500"`
	ProviderURL    string             `env:"PROVIDER_BASE_URL"`
	ProviderAPI    string             `env:"PROVIDER_VERSION"`
	ProviderAppID  string             `env:"PROVIDER_APP_ID"`
	ProviderSecret []telemetry.Secret `env:"PROVIDER_APP_SECRET"`
	ProviderVerify telemetry.Secret   `env:"PROVIDER_VERIFY_TOKEN"`
	ProviderSignup string             `env:"PROVIDER_SIGNUP_CONFIG_ID"`
	MediaBucket    telemetry.Secret   `env:"MEDIA_BUCKET"`
	MediaURL       string             `env:"MEDIA_BASE_URL"`
	MediaListen    string             `env:"MEDIA_LISTEN"     envDefault:"127.0.0.1:8081"`
	SendEchoWait   time.Duration      `env:"SEND_ECHO_WAIT"   envDefault:"120s"`
	LogLevel       string             `env:"LOG_LEVEL"        envDefault:"info"`
	LogFormat      string             `env:"LOG_FORMAT"       envDefault:"json"`

	// environment is the whole environment: OpenTelemetry reads settings of its own from it.
	environment map[string]string
	// mistakes are the errors of the settings that could not be parsed, unread their names without Prefix.
	mistakes []error
	unread   []string
	// Dev is for a developer's machine: it allows the published master key, and webhook endpoints
	// on this machine without TLS.
	Dev bool
	// LogTraffic logs each callback and each webhook delivery, for a developer. It costs too much for a measurement.
	LogTraffic bool
}

// Prefix is the start of every setting's name.
const Prefix = "PARLEY_"

// DevMasterKey is the master key of `parley dev`. It is published, so serve refuses it.
func DevMasterKey() string {
	return base64.StdEncoding.EncodeToString([]byte("parley dev master key, no secret"))
}

// ReadConfig reads the settings. Check reports those that cannot be parsed, together with all
// other mistakes.
func ReadConfig(environment map[string]string) Config {
	config, err := env.ParseAsWithOptions[Config](env.Options{Environment: environment, Prefix: Prefix})
	config.environment = environment
	if aggregate, ok := errors.AsType[env.AggregateError](err); ok {
		for _, cause := range aggregate.Errors {
			name, mistake := unreadable(cause)
			config.mistakes, config.unread = append(config.mistakes, mistake), append(config.unread, name)
		}
	} else if err != nil {
		config.mistakes = append(config.mistakes, err)
	}
	if config.DirectoryURL == "" {
		config.DirectoryURL = config.DatabaseURL
	}
	if config.PublicURL == "" {
		config.PublicURL = "http://" + config.Listen
	}
	if config.MediaURL == "" {
		config.MediaURL = "http://" + config.MediaListen
	}
	config.MediaURL = strings.TrimRight(config.MediaURL, "/")
	return config
}

// unreadable is the name and the error of a setting that cannot be parsed. The error names the variable, not the Go
// field, and leaves out the value, which may be a secret.
func unreadable(cause error) (name string, mistake error) {
	parse, ok := errors.AsType[env.ParseError](cause)
	if !ok {
		return "", cause
	}
	field, _ := reflect.TypeFor[Config]().FieldByName(parse.Name)
	name = field.Tag.Get("env")
	return name, fmt.Errorf("%s%s: not a valid %s", Prefix, name, humanType(parse.Type))
}

// read tells whether a setting could be parsed. One that could not was reported, and its value says nothing.
func (c Config) read(name string) bool { return !slices.Contains(c.unread, name) }

func humanType(kind reflect.Type) string {
	switch kind {
	case reflect.TypeFor[[]netip.Prefix](), reflect.TypeFor[netip.Prefix]():
		return "list of networks like 10.0.0.0/8,192.168.0.0/16"
	case reflect.TypeFor[int32](), reflect.TypeFor[int]():
		return "number"
	case reflect.TypeFor[time.Duration]():
		return "duration like 120s or 2m"
	default:
		return "value"
	}
}

// workerOperatorListen is the default of PARLEY_OPERATOR_LISTEN for a process that only works. It is not that of a
// process that serves, so that both run on one machine without settings.
const workerOperatorListen = "127.0.0.1:9091"

// operatorListen is where the operator's endpoints are.
func (c Config) operatorListen(roles Roles) string {
	if c.environment[Prefix+"OPERATOR_LISTEN"] == "" && !roles.Serve {
		return workerOperatorListen
	}
	return c.OperatorListen
}

func (c Config) getenv(name string) string { return c.environment[name] }

// Check reports all settings that are wrong, not only the first.
func (c Config) Check() error {
	return errors.Join(
		errors.Join(c.mistakes...),
		checkAddress("LISTEN", c.Listen),
		checkAddress("OPERATOR_LISTEN", c.OperatorListen),
		c.checkDatabaseURL(),
		c.checkDirectoryURL(),
		c.checkCells(),
		c.checkRedisURL(),
		checkURL("PUBLIC_URL", c.PublicURL, "https", "http"),
		c.checkMedia(),
		c.checkMasterKey(),
		c.checkWebhooks(),
		c.checkProvider(),
		checkOneOf("LOG_LEVEL", c.LogLevel, "debug", "info", "warn", "error"),
		checkOneOf("LOG_FORMAT", c.LogFormat, "json", "text"),
		c.checkConns(),
		c.checkEchoWait(),
	)
}

// posts is the HTTP client for addresses that tenants choose. In development it also allows
// endpoints on this machine and plain http.
func (c Config) posts(logger *slog.Logger) (*safehttp.Client, error) {
	config := safehttp.Config{AllowNetworks: c.WebhookNets, AllowHTTP: c.Dev, CAFile: c.WebhookCAFile}
	if c.Dev {
		loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		config.AllowNetworks = append(slices.Clone(c.WebhookNets), loopback...)
	}
	if c.LogTraffic {
		config.Posted = logDeliveries(logger)
	}
	return safehttp.New(config)
}

func (c Config) checkWebhooks() error {
	if _, err := c.posts(slog.New(slog.DiscardHandler)); err != nil {
		return fmt.Errorf("%sWEBHOOK_CA_FILE or WEBHOOK_ALLOW_NETWORKS: %w", Prefix, err)
	}
	if c.WebhookRate < 1 && c.read("WEBHOOK_HOST_RATE") {
		return fmt.Errorf("%sWEBHOOK_HOST_RATE: %d is too few, use at least 1", Prefix, c.WebhookRate)
	}
	return nil
}

func (c Config) checkDatabaseURL() error {
	return checkURL("DATABASE_URL", c.DatabaseURL.Reveal(), "postgres", "postgresql")
}

// checkDirectoryURL skips a directory that is in the main cell's database: checkDatabaseURL
// reports that URL.
func (c Config) checkDirectoryURL() error {
	if c.DirectoryURL == c.DatabaseURL {
		return nil
	}
	return checkURL("DIRECTORY_DATABASE_URL", c.DirectoryURL.Reveal(), "postgres", "postgresql")
}

func (c Config) checkRedisURL() error {
	if c.RedisURL == "" {
		return nil
	}
	return checkURL("REDIS_URL", c.RedisURL.Reveal(), "redis", "rediss", "unix")
}

// checkMedia skips the address and the URL of the media host when no files are stored.
func (c Config) checkMedia() error {
	if c.MediaBucket == "" {
		return nil
	}
	scheme, _, _ := strings.Cut(c.MediaBucket.Reveal(), "://")
	if scheme != "file" && scheme != "s3" {
		return fmt.Errorf("%sMEDIA_BUCKET: it must be like file:///var/lib/parley/media or s3://bucket?region=eu-west-1", Prefix)
	}
	return errors.Join(checkAddress("MEDIA_LISTEN", c.MediaListen), checkURL("MEDIA_BASE_URL", c.MediaURL, "https", "http"))
}

func (c Config) checkMasterKey() error {
	if _, err := c.Keyring(); err != nil {
		return fmt.Errorf("%sMASTER_KEY: %w", Prefix, err)
	}
	if !c.Dev && slices.Contains(c.MasterKey, telemetry.Secret(DevMasterKey())) {
		return fmt.Errorf("%sMASTER_KEY: this is the published key of `parley dev`; generate one with `openssl rand -base64 32`, and use "+
			"another database than that of `parley dev`", Prefix)
	}
	return nil
}

func (c Config) checkConns() error {
	if c.DatabaseConns < 2 && c.read("DATABASE_CONNS") {
		return fmt.Errorf("%sDATABASE_CONNS: %d is too few, use at least 2", Prefix, c.DatabaseConns)
	}
	return nil
}

// checkEchoWait bounds the wait by the longest one while callbacks do not arrive.
func (c Config) checkEchoWait() error {
	const least, most = time.Second, 10 * time.Minute
	if (c.SendEchoWait < least || c.SendEchoWait > most) && c.read("SEND_ECHO_WAIT") {
		return fmt.Errorf("%sSEND_ECHO_WAIT: %s is not a duration from 1s to 10m, like 120s", Prefix, c.SendEchoWait)
	}
	return nil
}

// Keyring is built from the master keys. The first of them seals; all of them open.
func (c Config) Keyring() (*sealed.Keyring, error) {
	masters := make([]string, len(c.MasterKey))
	for i, key := range c.MasterKey {
		masters[i] = strings.TrimSpace(key.Reveal())
	}
	return sealed.NewKeyring(masters)
}

func checkAddress(name, value string) error {
	_, port, err := net.SplitHostPort(value)
	if number, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || number > math.MaxUint16 {
		return fmt.Errorf("%s%s: %q is not host:port", Prefix, name, value)
	}
	return nil
}

// checkURL does not repeat the value: it may hold a password.
func checkURL(name, value string, schemes ...string) error {
	parsed, err := url.Parse(value)
	if err != nil || !slices.Contains(schemes, parsed.Scheme) {
		return fmt.Errorf("%s%s: not a URL that starts with %s://", Prefix, name, strings.Join(schemes, ":// or "))
	}
	return nil
}

func checkOneOf(name, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s%s: %q is not one of %s", Prefix, name, value, strings.Join(allowed, ", "))
	}
	return nil
}

// unknownSettings finds variables that start with Prefix and are no settings, mostly misspelled ones.
func unknownSettings(environment map[string]string) []Finding {
	// Those that the quickstart exports are no settings, and no mistake.
	known := map[string]bool{Prefix + "URL": true, Prefix + "KEY": true, Prefix + "NUMBER": true, Prefix + "PHONE": true}
	fields, err := env.GetFieldParamsWithOptions(&Config{}, env.Options{Environment: environment, Prefix: Prefix})
	if err != nil {
		return nil
	}
	for _, field := range fields {
		known[field.Key] = true
	}
	findings := []Finding{}
	for name := range environment {
		if strings.HasPrefix(name, Prefix) && !strings.HasPrefix(name, Prefix+"TEST_") && !known[name] && !cellSetting.MatchString(name) {
			findings = append(findings, Finding{Name: "settings", Found: name + " is not a setting", Fix: "check its spelling"})
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Found, b.Found) })
	return findings
}
