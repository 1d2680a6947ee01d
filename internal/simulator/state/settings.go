package state

import (
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Settings say how the network behaves. POST /sim/settings changes the fields that it names.
// The defaults are in defaultSettings.
type Settings struct {
	// Delays of the statuses after the acceptance, in milliseconds; a negative one leaves the
	// status out.
	SentDelayMS      int `json:"sent_delay_ms"`
	DeliveredDelayMS int `json:"delivered_delay_ms"`
	ReadDelayMS      int `json:"read_delay_ms"`
	// CallbackDelayMS is how long each callback waits before its first post, in milliseconds.
	CallbackDelayMS int `json:"callback_delay_ms"`
	// Shares, from 0 to 1, of callbacks that are posted twice or never.
	Duplicate float64 `json:"duplicate"`
	Drop      float64 `json:"drop"`
	// DropMessages is the share, from 0 to 1, of accepted messages of which no status is ever
	// posted. It applies to the messages that are accepted after the change.
	DropMessages float64 `json:"drop_messages"`
	Shuffle      bool    `json:"shuffle"`    // the order of a message's statuses and of the updates in a batch
	BatchSize    int     `json:"batch_size"` // the most updates in one callback, 1 to 1000
	Silent       bool    `json:"silent"`     // no statuses

	// Window says what happens to a message outside of the 24-hour window: `async` a failed
	// status, `sync` a refusal, `off` nothing.
	Window          string `json:"window"`
	ThroughputLimit bool   `json:"throughput_limit"`
	PairLimit       bool   `json:"pair_limit"`
	ManagementLimit bool   `json:"management_limit"`
	FetchLinks      bool   `json:"fetch_links"`       // linked files are downloaded before the first status
	MediaURLSeconds int    `json:"media_url_seconds"` // until a media URL expires
	// ReviewDelayMS is how long a template waits for its review, in milliseconds; negative: for
	// ever.
	ReviewDelayMS int `json:"review_delay_ms"`
	// Redelivery of a callback that was not answered with 200: the first wait, which doubles
	// each time up to the longest wait (both in milliseconds), and when it is given up.
	RedeliverAfterMS    int `json:"redeliver_after_ms"`
	RedeliverMaxMS      int `json:"redeliver_max_ms"`
	RedeliverForSeconds int `json:"redeliver_for_seconds"`
}

func defaultSettings() Settings {
	return Settings{
		SentDelayMS: 100, DeliveredDelayMS: 400, ReadDelayMS: 2000,
		BatchSize: 1, Window: "async", ThroughputLimit: true, PairLimit: true, ManagementLimit: true,
		FetchLinks: true, MediaURLSeconds: 300, ReviewDelayMS: 2000,
		RedeliverAfterMS: 1000, RedeliverMaxMS: 3600 * 1000, RedeliverForSeconds: 7 * 24 * 3600,
	}
}

// Check refuses values that are out of range.
func (s Settings) Check() error {
	share := func(f float64) bool { return f >= 0 && f <= 1 }
	switch {
	case !share(s.Duplicate) || !share(s.Drop) || !share(s.DropMessages):
		return wire.Refusal(100, "duplicate, drop and drop_messages must be between 0 and 1; got %g, %g and %g",
			s.Duplicate, s.Drop, s.DropMessages)
	case s.BatchSize < 1 || s.BatchSize > 1000:
		return wire.Refusal(100, "batch_size must be between 1 and 1000; got %d", s.BatchSize)
	case s.Window != "async" && s.Window != "sync" && s.Window != "off":
		return wire.Refusal(100, "window must be async, sync or off; got %q", s.Window)
	case s.CallbackDelayMS < 0:
		return wire.Refusal(100, "callback_delay_ms must be 0 or more; got %d", s.CallbackDelayMS)
	case s.MediaURLSeconds < 1 || s.RedeliverAfterMS < 1 || s.RedeliverMaxMS < 1 || s.RedeliverForSeconds < 0:
		return wire.Refusal(100, "media_url_seconds, redeliver_after_ms and redeliver_max_ms must be at least 1, "+
			"redeliver_for_seconds at least 0")
	}
	return nil
}
