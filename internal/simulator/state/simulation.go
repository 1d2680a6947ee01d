// Package state holds what the simulated network knows (apps, business accounts, numbers,
// users, messages, templates, files) and what happens there with time: statuses, reviews of
// templates, downloads of linked files, callbacks. It serves no HTTP itself.
package state

import (
	"context"
	crand "crypto/rand"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/dispatcher"
	"github.com/parley-chat/parley/internal/simulator/page"
	"github.com/parley-chat/parley/internal/simulator/scheduler"
)

// object is a JSON object that is built or read by hand.
type object = map[string]any

// Config says how a simulation starts. Each empty field has a default.
type Config struct {
	// BaseURL is where clients reach the simulator; media URLs begin with it. Default: the
	// host of the request.
	BaseURL string
	// The first app, its token, and where its callbacks go. Without CallbackURL nothing is
	// posted until one is set.
	AppID       string
	AppSecret   string
	VerifyToken string
	CallbackURL string
	Token       string

	Clock  clock.Clock  // default: the system's clock
	Logger *slog.Logger // default: none
	// Transport posts callbacks and downloads linked files.
	Transport http.RoundTripper
	// Seed makes shuffling, duplication and loss repeatable; 0 is a seed too. The seed and the
	// number of messages that were accepted before decide which messages drop_messages drops.
	Seed uint64
}

// The app, token, business and number of the fixture.
const (
	DefaultAppID         = "200000000000001"
	DefaultAppSecret     = "simulator-app-secret" //nolint:gosec // a public value of the simulator
	DefaultVerifyToken   = "simulator-verify-token"
	DefaultToken         = "simulator-token"
	DefaultBusinessID    = "300000000000001"
	DefaultAccountID     = "400000000000001"
	DefaultPhoneNumberID = "100000000000001"
)

func (c Config) withDefaults() Config {
	setDefaults(map[*string]string{
		&c.AppID: DefaultAppID, &c.AppSecret: DefaultAppSecret, &c.VerifyToken: DefaultVerifyToken, &c.Token: DefaultToken,
	})
	if c.Clock == nil {
		c.Clock = clock.NewSynced()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			MaxIdleConns: 256, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		}
	}
	return c
}

// setDefaults fills the fields that are empty.
func setDefaults(defaults map[*string]string) {
	for field, value := range defaults {
		if *field == "" {
			*field = value
		}
	}
}

const (
	maxScheduled  = 2_000_000        // functions that wait for their time
	maxDownloads  = 10_000           // linked files that wait for their download
	downloaders   = 4                // downloads at the same time
	answerTimeout = 10 * time.Second // of a callback and of a download
	lossStream    = 0x6C6F7373       // makes losses differ from random
)

// Simulation is the network. Its lock guards Data and everything in it, and is never held
// during a network call.
type Simulation struct {
	Config    Config
	Scheduler *scheduler.Scheduler
	Feed      *page.Feed
	Counters  Counters

	client     *http.Client
	dispatcher *dispatcher.Dispatcher
	key        []byte                     // signs media URLs
	downloads  chan func(context.Context) // of linked files

	sync.Mutex
	Data   *Data
	random *rand.Rand // for shuffling, duplication and loss of callbacks
	losses *rand.Rand // for drop_messages only: one number per accepted message
}

// New returns a simulation with its fixture. Callbacks are queued until Run.
func New(config Config) *Simulation {
	config = config.withDefaults()
	s := &Simulation{
		Config: config, Feed: page.NewFeed(), key: []byte(crand.Text()), downloads: make(chan func(context.Context), maxDownloads),
		client: &http.Client{
			Transport: config.Transport, Timeout: answerTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	s.Scheduler = scheduler.New(s.Now, maxScheduled)
	s.dispatcher = dispatcher.New(dispatcher.Deps{
		Client: s.client, Scheduler: s.Scheduler, Now: s.Now, Policy: s.policy, Logger: config.Logger, Observe: s.recordCallback,
	})
	s.Reset()
	return s
}

// Run posts callbacks, downloads linked files and runs what is due until ctx ends.
func (s *Simulation) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { s.Scheduler.Run(ctx) })
	group.Go(func() { s.dispatcher.Run(ctx) })
	for range downloaders {
		group.Go(func() {
			for {
				select {
				case download := <-s.downloads:
					download(ctx)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	group.Wait()
	s.Feed.Close()
	if transport, ok := s.Config.Transport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// SetCallbackURL changes where the first app's callbacks go. A reset keeps it.
func (s *Simulation) SetCallbackURL(address string) {
	s.Lock()
	defer s.Unlock()
	s.Config.CallbackURL = address
	if first := s.Data.Apps[s.Config.AppID]; first != nil {
		first.CallbackURL = address
	}
}

// BaseURL returns where clients reach the simulator.
func (s *Simulation) BaseURL(r *http.Request) string {
	if s.Config.BaseURL != "" {
		return s.Config.BaseURL
	}
	if r == nil || r.Host == "" {
		return ""
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// Now returns the network's time.
func (s *Simulation) Now() time.Time {
	return s.Config.Clock.Now().Add(time.Duration(s.Counters.Skew.Load()))
}

// Reset deletes everything and builds the fixture again.
func (s *Simulation) Reset() {
	s.Scheduler.Clear()
	s.dispatcher.Clear()
	s.Lock()
	defer s.Unlock()
	s.Counters.reset()
	s.random = rand.New(rand.NewPCG(s.Config.Seed, s.Config.Seed)) //nolint:gosec // repeatable on purpose
	s.losses = rand.New(rand.NewPCG(s.Config.Seed, lossStream))    //nolint:gosec // repeatable on purpose
	s.Data = newData(s.Config, s.Now())
	s.Feed.Publish("reset", struct{}{})
}

// policy returns how callbacks are posted under the present settings.
func (s *Simulation) policy() dispatcher.Policy {
	s.Lock()
	defer s.Unlock()
	settings := s.Data.Settings
	policy := dispatcher.Policy{
		Batch:          settings.BatchSize,
		RedeliverAfter: time.Duration(settings.RedeliverAfterMS) * time.Millisecond,
		RedeliverMax:   time.Duration(settings.RedeliverMaxMS) * time.Millisecond,
		GiveUpAfter:    time.Duration(settings.RedeliverForSeconds) * time.Second,
	}
	if settings.Shuffle {
		policy.Shuffle = func(n int, swap func(i, j int)) {
			s.Lock()
			defer s.Unlock()
			s.random.Shuffle(n, swap)
		}
	}
	return policy
}

// chance returns true for a share of its calls. The caller holds the lock.
func (s *Simulation) chance(share float64) bool {
	return share > 0 && s.random.Float64() < share
}
