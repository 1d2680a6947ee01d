package simulator

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/parley-chat/parley/internal/simulator/courier"
)

// The bounds of memory.
const (
	maxSent      = 1_000_000
	maxShown     = 20_000
	maxAttempts  = 1_000
	maxPeople    = 100_000
	maxWindows   = 500_000
	maxPairs     = 500_000
	maxTokens    = 10_000
	maxScripts   = 10_000
	maxTemplates = 6_000 // of one business account, as the network has it
)

// world is everything that /sim/reset forgets.
type world struct {
	settings Settings
	apps     map[string]*app
	accounts map[string]*account
	numbers  map[string]*number
	tokens   map[string]*token
	codes    map[string]*code

	people  *people
	windows *windows
	pairs   *pairs
	scripts []*script

	templates map[string]*template
	names     map[templateName3]*template
	media     *mediaStore
	uploads   map[string]*upload

	sent     *ring[sentEntry]
	shown    *ring[*bubble]
	bubbles  map[string]*bubble
	threads  map[pair][]*bubble
	attempts *ring[courier.Attempt]

	ids uint64 // the newest id given to anything created later
}

// app is a client of the network.
type app struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Secret      string   `json:"app_secret"`
	VerifyToken string   `json:"verify_token"`
	CallbackURL string   `json:"callback_url"`
	Fields      []string `json:"fields"` // empty: all
	// Version of callbacks: up to v23 statuses carry a conversation.
	Version string `json:"version"`
}

func (a *app) wants(field string) bool {
	return len(a.Fields) == 0 || slices.Contains(a.Fields, field)
}

// account is a business account: what owns numbers and templates.
type account struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Business string `json:"business_id"` // the portfolio
	Parent   string `json:"parent_business_id,omitempty"`
	Currency string `json:"currency"`

	Disabled     bool     `json:"disabled,omitempty"`
	Restrictions []string `json:"restrictions,omitempty"`

	subscribed map[string]override // by app
	created    []time.Time         // templates of the last hour
	calls      usage
}

// override sends an app's callbacks elsewhere.
type override struct{ URL, VerifyToken string }

// number is a business's phone number.
type number struct {
	ID          string
	Account     *account
	Display     string
	Digits      string
	Name        string
	Status      string
	Verified    bool
	Quality     string
	Throughput  string
	NameStatus  string
	Tier        string
	Mode        string
	Coexistence bool
	Username    string

	pin        string
	wrongPINs  int
	pinBlocked time.Time
	registers  []time.Time
	asked      bool // for a verification code
	synced     map[string]bool
	onboarded  time.Time
	override   map[string]override // by app
	bucket     bucket
}

func (n *number) registered() bool {
	return n.Status != "PENDING" && n.Status != "DISCONNECTED" && n.Status != "UNVERIFIED"
}

// token lets an app's calls in. No accounts means all of them.
type token struct {
	Value    string    `json:"access_token"`
	App      string    `json:"app_id"`
	Accounts []string  `json:"accounts,omitempty"`
	Scopes   []string  `json:"scopes"`
	Expires  time.Time `json:"expires_at,omitzero"`
	Issued   time.Time `json:"issued_at"`
	Revoked  bool      `json:"revoked,omitempty"`
}

func (t *token) covers(accountID string) bool {
	return len(t.Accounts) == 0 || slices.Contains(t.Accounts, accountID)
}

func newWorld(config Config, now time.Time) *world {
	w := &world{
		settings: defaultSettings(),
		apps:     map[string]*app{}, accounts: map[string]*account{}, numbers: map[string]*number{},
		tokens: map[string]*token{}, codes: map[string]*code{},
		people: newPeople(), windows: newWindows(), pairs: newPairs(),
		templates: map[string]*template{}, names: map[templateName3]*template{}, media: newMediaStore(), uploads: map[string]*upload{},
		sent: newRing[sentEntry](maxSent), shown: newRing[*bubble](maxShown), bubbles: map[string]*bubble{}, threads: map[pair][]*bubble{},
		attempts: newRing[courier.Attempt](maxAttempts),
	}
	w.furnish(config, now)
	return w
}

// id is a decimal id in the series of its kind.
func (w *world) id(series uint64) string {
	w.ids++
	return strconv.FormatUint(series*100_000_000_000_000+1_000+w.ids, 10)
}

// Series of ids, by kind: the fixture's begin the same way.
const (
	numberSeries   = 1
	appSeries      = 2
	businessSeries = 3
	accountSeries  = 4
	templateSeries = 5
	mediaSeries    = 6
)

// numbersOf lists the numbers of an account, oldest first.
func (w *world) numbersOf(owner *account) []*number {
	var owned []*number
	for _, id := range slices.Sorted(maps.Keys(w.numbers)) {
		if n := w.numbers[id]; n.Account == owner {
			owned = append(owned, n)
		}
	}
	return owned
}
