package provider

import (
	"encoding/json"
	"time"
)

// Values of provider_status: those that the specification names, and those that end a number.
// Others are possible.
const (
	NumberConnected    = "CONNECTED"
	NumberPending      = "PENDING"
	NumberUnverified   = "UNVERIFIED"
	NumberDisconnected = "DISCONNECTED"
	NumberRestricted   = "RESTRICTED"
	NumberBanned       = "BANNED"
	NumberDeleted      = "DELETED"
	NumberMigrated     = "MIGRATED"
)

// Throughput is how fast a number may send.
type Throughput string

// The levels.
const (
	ThroughputUnknown  Throughput = ""
	ThroughputStandard Throughput = "standard" // 80 messages a second
	ThroughputHigh     Throughput = "high"     // 1,000 messages a second
)

// NumberState is a business number as the provider has it. Values that it left out are empty.
type NumberState struct {
	ID string
	// Phone is the number in E.164, Display as the provider prints it.
	Phone   string
	Display string
	// Name is the display name.
	Name string
	// Status is the provider_status.
	Status string
	// Verified says that the number may be registered.
	Verified   bool
	Quality    string
	Throughput Throughput
	DailyLimit DailyLimit
	// Coexistence numbers are in use in the phone app too: 20 messages a second, and neither
	// register nor deregister.
	Coexistence bool
	Raw         json.RawMessage
}

// PhoneAppData is the kind of data that SyncPhoneApp requests.
type PhoneAppData string

// The two kinds of data.
const (
	PhoneAppContacts PhoneAppData = "contacts"
	PhoneAppHistory  PhoneAppData = "history"
)

// SignupDialog is how the page is opened.
type SignupDialog struct {
	RedirectURL string
	State       string
	// Coexistence offers numbers of the phone app.
	Coexistence bool
}

// SignupCode is the code that the page returned. RedirectURL is that of the dialog, and empty
// for a code that was handed over by script.
type SignupCode struct {
	Code        string
	RedirectURL string
}

// Grant is a business's token. ExpiresAt is zero when it does not expire.
type Grant struct {
	Token     Token
	ExpiresAt time.Time
}

// TokenState is what a token allows.
type TokenState struct {
	Valid     bool
	ExpiresAt time.Time // zero: never
	Scopes    []string
	// BusinessAccounts that the token may manage, the newest grant first.
	BusinessAccounts []string
	// CanSend is needed to send, CanManage to connect numbers.
	CanSend   bool
	CanManage bool
}
