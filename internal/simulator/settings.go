package simulator

import "github.com/parley-chat/parley/internal/simulator/wire"

// Settings is how the network behaves in general; `POST /sim/settings` changes the
// fields that it names.
type Settings struct {
	// Delays count from the acceptance. A negative one leaves the status out.
	SentDelayMS      int `json:"sent_delay_ms"`
	DeliveredDelayMS int `json:"delivered_delay_ms"`
	ReadDelayMS      int `json:"read_delay_ms"`
	// Shares, from 0 to 1, of callbacks that arrive twice or never.
	Duplicate float64 `json:"duplicate"`
	Drop      float64 `json:"drop"`
	// Shuffle lets the statuses of a message, and the updates of a batch, arrive in any order.
	Shuffle   bool `json:"shuffle"`
	BatchSize int  `json:"batch_size"`
	// Silent: no statuses at all.
	Silent bool `json:"silent"`

	// Window is how a message outside of the 24-hour window ends: `async` by a failed
	// status, `sync` by a refusal, `off` not at all.
	Window          string `json:"window"`
	ThroughputLimit bool   `json:"throughput_limit"`
	PairLimit       bool   `json:"pair_limit"`
	ManagementLimit bool   `json:"management_limit"`
	FetchLinks      bool   `json:"fetch_links"`
	MediaURLSeconds int    `json:"media_url_seconds"`
	// ReviewDelayMS is how long a template waits for its review; negative: for ever.
	ReviewDelayMS int `json:"review_delay_ms"`
	// Redelivery of a callback that was not answered with 200; each wait is twice the one before.
	RedeliverAfterMS    int `json:"redeliver_after_ms"`
	RedeliverForSeconds int `json:"redeliver_for_seconds"`
}

func defaultSettings() Settings {
	return Settings{
		SentDelayMS: 100, DeliveredDelayMS: 400, ReadDelayMS: 2000,
		BatchSize: 1, Window: "async", ThroughputLimit: true, PairLimit: true, ManagementLimit: true,
		FetchLinks: true, MediaURLSeconds: 300, ReviewDelayMS: 2000,
		RedeliverAfterMS: 1000, RedeliverForSeconds: 7 * 24 * 3600,
	}
}

func (s Settings) check() error {
	share := func(f float64) bool { return f >= 0 && f <= 1 }
	switch {
	case !share(s.Duplicate) || !share(s.Drop):
		return wire.Refusal(100, "duplicate and drop are shares from 0 to 1")
	case s.BatchSize < 1 || s.BatchSize > 1000:
		return wire.Refusal(100, "batch_size is 1 to 1000")
	case s.Window != "async" && s.Window != "sync" && s.Window != "off":
		return wire.Refusal(100, "window is async, sync or off")
	case s.MediaURLSeconds < 1 || s.RedeliverAfterMS < 1 || s.RedeliverForSeconds < 0:
		return wire.Refusal(100, "a duration is not positive")
	}
	return nil
}
