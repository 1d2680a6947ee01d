package provider

import (
	"encoding/json"
	"time"
)

// Item is one of the types below that embed item, and no other.
type Item interface{ isItem() }

type item struct{}

func (item) isItem() {}

// Inbound is a message that a user sent to a business number.
type Inbound struct {
	item

	ID   string
	From User
	At   time.Time
	// GroupID is set when it was written to a group and not to the number alone.
	GroupID string
	Type    string
	// Content is the object named by the type, nil when there is none.
	Content json.RawMessage
	// Reply is the message that this one answers or taps on, or nil.
	Reply *Reply
	// Forwarded says that the user forwarded an older message.
	Forwarded bool
	Media     *MediaRef
	Reaction  *Reaction
	// Unsupported is the kind of content that the provider does not pass on.
	Unsupported string
	// Origin is `contact_request` for a contact card that answers our request for the number.
	Origin   string
	Referral json.RawMessage
	Errors   []*Error
	// Historic messages were sent before the number was connected; they are no news.
	Historic bool
}

// Reply names the message that is answered. From is the number of its author, E.164.
type Reply struct {
	MessageID string
	From      string
}

// MediaRef is a file inside of a message. URL may be missing, and works for minutes.
type MediaRef struct {
	ID       string
	URL      string
	MIMEType string
	SHA256   []byte
	Caption  string
	Filename string
	Voice    bool
	Animated bool
}

// Reaction is an emoji on a message; an empty Emoji removes the reaction.
type Reaction struct {
	MessageID string
	Emoji     string
}

// The statuses of a message that was sent.
const (
	StatusSent      = "sent"
	StatusDelivered = "delivered"
	StatusRead      = "read"
	StatusFailed    = "failed"
	StatusPlayed    = "played"
)

// KnownStatuses are the statuses that have an event. The network may send others, such as the former `deleted`.
func KnownStatuses() []string {
	return []string{StatusSent, StatusDelivered, StatusRead, StatusFailed, StatusPlayed}
}

// Status is a status of a message that was sent; unknown values of Status are possible.
type Status struct {
	item

	MessageID string
	Status    string
	At        time.Time
	Recipient User
	// Reference is that of the Outbound; empty for a message of the phone app.
	Reference string
	Errors    []*Error
}

// IdentityReason says why a user has another identity.
type IdentityReason string

// The reasons.
const (
	IdentityNumberChanged  IdentityReason = "number_changed"
	IdentityUserIDChanged  IdentityReason = "user_id_changed"
	IdentitySecurityChange IdentityReason = "security_code_changed" // the same identity, a new device
)

// IdentityChange is a user whose phone number or id changed. Unknown values are empty.
type IdentityChange struct {
	item

	ID       string
	At       time.Time
	Reason   IdentityReason
	Previous User
	Current  User
	Body     string
}

// Edit is a message whose author changed it. Content may be withheld.
type Edit struct {
	item

	ID         string
	At         time.Time
	OriginalID string
	// ByBusiness: in the phone app. Otherwise User wrote it.
	ByBusiness bool
	User       User
	// GroupID and Historic are as those of Inbound.
	GroupID  string
	Historic bool
	Type     string
	Content  json.RawMessage
	Media    *MediaRef
}

// Revoke is a message whose author deleted it for everyone.
type Revoke struct {
	item

	ID         string
	At         time.Time
	OriginalID string
	ByBusiness bool
	User       User
	// GroupID and Historic are as those of Inbound.
	GroupID  string
	Historic bool
}

// Echo is a message that the business sent in the phone app.
type Echo struct {
	item

	ID       string
	At       time.Time
	To       User
	Type     string
	Content  json.RawMessage
	Reply    *Reply
	Media    *MediaRef
	Reaction *Reaction
	Historic bool
}

// History is a chunk of the messages from before the number was connected.
type History struct {
	item

	Phase    int // 0 the last day, 1 up to 90 days, 2 up to 180
	Chunk    int
	Progress int // percent
	Threads  []HistoryThread
	// Errors say that the business declined to share.
	Errors []*Error
}

// HistoryThread is a conversation with one user.
type HistoryThread struct {
	User     User
	Messages []HistoryMessage
}

// HistoryMessage is an old message. Status is lower case and `pending` or `error` too.
type HistoryMessage struct {
	ID           string
	At           time.Time
	FromBusiness bool
	Type         string
	Content      json.RawMessage
	Media        *MediaRef
	Status       string
	Raw          json.RawMessage
}

// PhoneAppContact is an entry of the phone app's address book.
type PhoneAppContact struct {
	item

	User      User // its Name is the full one
	FirstName string
	Removed   bool // otherwise added or changed
	At        time.Time
}

// Preference is the choice of a user about marketing messages.
type Preference struct {
	item

	User     User
	At       time.Time
	Category string // marketing_messages
	Value    string // stop, resume, signup
	Detail   string
}

// Trouble is an error of the system, the app or the account, reported without a message.
type Trouble struct {
	item

	Error *Error
}

// Unknown is an item that the adapter does not understand. Reason says which part.
type Unknown struct {
	item

	Reason string
}
