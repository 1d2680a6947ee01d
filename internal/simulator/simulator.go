// Package simulator plays the messaging network: the other side of the provider's API,
// written from the wire's description alone. It imports neither the adapter nor the
// domain, so that it can disagree with them. Everything is in memory and bounded.
//
// It is steered by `/sim` (docs/guides/simulator.md) and by the recipient's number:
//
//	+1 555 4 CCCCCC   the send is refused at once with error code CCCCCC (000190, 131056 …)
//	+1 555 2 CCCCCC   the send is accepted and fails later with error code CCCCCC
//	+1 555 9 000HHH   the send is answered with the bare HTTP status HHH
//	+1 555 9 00000N   1 held, then delivered; 2 held, then dropped; 3 accepted, the answer is
//	                  cut off; 4 accepted, the answer is garbage; 5 answered after 5 seconds;
//	                  6 no status ever; 7 each status twice; 8 stays at sent; 9 never read
//
// A two-step PIN that is the code of a registration error (133005 …) forces that error.
package simulator

import (
	"context"
	crand "crypto/rand"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/agenda"
	"github.com/parley-chat/parley/internal/simulator/courier"
)

// Config is how a simulator starts. Each empty field has a default, so that the zero
// value works.
type Config struct {
	// BaseURL is where clients reach the simulator; media URLs begin with it. Empty: as the
	// latest request addressed it.
	BaseURL string
	// The first app, its token, and where its callbacks go; without CallbackURL nothing is
	// posted until somebody sets one.
	AppID       string
	AppSecret   string
	VerifyToken string
	CallbackURL string
	Token       string

	Clock  clock.Clock
	Logger *slog.Logger
	// Transport carries callbacks and fetches linked media.
	Transport http.RoundTripper
	// Seed makes shuffling, duplication and loss repeatable; 0 is a seed too.
	Seed uint64
}

// The fixture's names, for whoever wires the simulator.
const (
	DefaultAppID         = "200000000000001"
	DefaultAppSecret     = "simulator-app-secret" //nolint:gosec // of a stand-in, known to all
	DefaultVerifyToken   = "simulator-verify-token"
	DefaultToken         = "simulator-token"
	DefaultBusinessID    = "300000000000001"
	DefaultAccountID     = "400000000000001"
	DefaultPhoneNumberID = "100000000000001"
)

func (c Config) withDefaults() Config {
	for field, value := range map[*string]string{
		&c.AppID: DefaultAppID, &c.AppSecret: DefaultAppSecret, &c.VerifyToken: DefaultVerifyToken, &c.Token: DefaultToken,
	} {
		if *field == "" {
			*field = value
		}
	}
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

const (
	maxTasks = 2_000_000
	maxJobs  = 10_000
	fetchers = 4
	// answerTimeout is how long a callback may take to be answered.
	answerTimeout = 10 * time.Second
)

// Simulator is the network.
type Simulator struct {
	config  Config
	logger  *slog.Logger
	client  *http.Client
	agenda  *agenda.Agenda
	courier *courier.Courier
	live    *live
	counts  counts
	key     []byte                     // signs media URLs
	jobs    chan func(context.Context) // files to fetch

	mu     sync.Mutex // guards all that follows, and is never held while anybody is waited for
	world  *world
	random *rand.Rand
}

// New builds a simulator with its fixture; callbacks wait for Run.
func New(config Config) *Simulator {
	config = config.withDefaults()
	s := &Simulator{
		config: config, logger: config.Logger, live: newLive(), key: []byte(crand.Text()), jobs: make(chan func(context.Context), maxJobs),
		client: &http.Client{
			Transport: config.Transport, Timeout: answerTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	s.agenda = agenda.New(s.Now, maxTasks)
	s.courier = courier.New(courier.Deps{
		Client: s.client, Agenda: s.agenda, Now: s.Now, Policy: s.policy, Logger: s.logger, Seen: s.attempted,
	})
	s.reset()
	return s
}

// Run carries callbacks and lets time pass until ctx ends.
func (s *Simulator) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { s.agenda.Run(ctx) })
	group.Go(func() { s.courier.Run(ctx) })
	for range fetchers {
		group.Go(func() {
			for {
				select {
				case job := <-s.jobs:
					job(ctx)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	group.Wait()
	s.live.close()
	if transport, ok := s.config.Transport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
	return nil
}

// SetCallbackURL moves the first app's callbacks, for whoever learns late where they
// are taken; a reset keeps it.
func (s *Simulator) SetCallbackURL(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.CallbackURL = address
	if first := s.world.apps[s.config.AppID]; first != nil {
		first.CallbackURL = address
	}
}

// Now is the network's time.
func (s *Simulator) Now() time.Time {
	return s.config.Clock.Now().Add(time.Duration(s.counts.skew.Load()))
}

// reset forgets everything and builds the fixture anew.
func (s *Simulator) reset() {
	s.agenda.Clear()
	s.courier.Clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.reset()
	s.random = rand.New(rand.NewPCG(s.config.Seed, s.config.Seed)) //nolint:gosec // repeatable on purpose
	s.world = newWorld(s.config, s.Now())
	s.live.publish("reset", struct{}{})
}

// policy is how callbacks are carried at this moment.
func (s *Simulator) policy() courier.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings := s.world.settings
	policy := courier.Policy{
		Batch: settings.BatchSize,
		Again: time.Duration(settings.RedeliverAfterMS) * time.Millisecond,
		Until: time.Duration(settings.RedeliverForSeconds) * time.Second,
	}
	if settings.Shuffle {
		policy.Shuffle = func(n int, swap func(i, j int)) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.random.Shuffle(n, swap)
		}
	}
	return policy
}

func (s *Simulator) chance(share float64) bool {
	return share > 0 && s.random.Float64() < share
}
