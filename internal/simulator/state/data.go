package state

import (
	"strconv"
	"time"

	"github.com/parley-chat/parley/internal/simulator/dispatcher"
)

// Bounds of memory, in entries.
const (
	maxSent      = 1_000_000
	maxReceipts  = 1_000_000
	maxRecent    = 20_000
	maxCallbacks = 1_000
	maxUsers     = 100_000
	maxWindows   = 500_000
	maxPairs     = 500_000
	maxTokens    = 10_000
	MaxScripts   = 10_000
	MaxTemplates = 6_000 // of one business account, as on the real network
)

// Data is everything that a reset deletes. The maps are by id.
type Data struct {
	Settings Settings
	Apps     map[string]*App
	Accounts map[string]*Account
	Numbers  map[string]*Number
	Tokens   map[string]*Token
	Codes    map[string]*Code

	Users      *userStore
	Windows    *windows
	PairLimits *pairLimits
	Scripts    []*Script

	Templates       map[string]*Template
	TemplatesByName map[TemplateKey]*Template
	Files           *fileStore
	Uploads         map[string]*Upload

	Sent      *Ring[SentEntry]
	Receipts  *Ring[Receipt]
	Recent    *Ring[*ChatMessage] // bounds Messages and Threads
	Messages  map[string]*ChatMessage
	Threads   map[Pair][]*ChatMessage // oldest first
	Callbacks *Ring[dispatcher.Attempt]

	lastID uint64 // the last number that NextID used
}

func newData(config Config, now time.Time) *Data {
	d := &Data{
		Settings: defaultSettings(),
		Apps:     map[string]*App{}, Accounts: map[string]*Account{}, Numbers: map[string]*Number{},
		Tokens: map[string]*Token{}, Codes: map[string]*Code{},
		Users: newUserStore(), Windows: newWindows(), PairLimits: newPairLimits(),
		Templates: map[string]*Template{}, TemplatesByName: map[TemplateKey]*Template{},
		Files: newFileStore(), Uploads: map[string]*Upload{},
		Sent: newRing[SentEntry](maxSent), Receipts: newRing[Receipt](maxReceipts), Recent: newRing[*ChatMessage](maxRecent),
		Messages: map[string]*ChatMessage{}, Threads: map[Pair][]*ChatMessage{},
		Callbacks: newRing[dispatcher.Attempt](maxCallbacks),
	}
	d.addFixture(config, now)
	return d
}

// NextID returns a new decimal id in the series of its kind.
func (d *Data) NextID(series uint64) string {
	d.lastID++
	return strconv.FormatUint(series*100_000_000_000_000+1_000+d.lastID, 10)
}

// The first digit of an id tells its kind.
const (
	numberSeries   = 1
	AppSeries      = 2
	BusinessSeries = 3
	accountSeries  = 4
	TemplateSeries = 5
	mediaSeries    = 6
)
