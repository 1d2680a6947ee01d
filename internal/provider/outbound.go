package provider

import "encoding/json"

// The types of messages. The first eight can be sent through the public API; all of them,
// and types that the provider adds, can be received.
const (
	TypeText        = "text"
	TypeImage       = "image"
	TypeDocument    = "document"
	TypeVideo       = "video"
	TypeAudio       = "audio"
	TypeTemplate    = "template"
	TypeInteractive = "interactive"
	TypeReaction    = "reaction"
	TypeSticker     = "sticker"
	TypeLocation    = "location"
	TypeContacts    = "contacts"
	TypeButton      = "button"
	TypeOrder       = "order"
	TypeSystem      = "system"
	TypeUnsupported = "unsupported"
)

// MaxReference is how many characters come back on statuses.
const MaxReference = 512

// Outbound is a message to be sent.
type Outbound struct {
	// To is the recipient's number in E.164 with its plus; it wins over Recipient, a BSUID.
	To        string
	Recipient string
	// ReplyTo is the provider's id of the message that this one answers, or empty.
	ReplyTo string
	// Reference comes back in every status of this message.
	Reference string
	Type      string
	// Content is the object named by Type as the specification writes it. Fields that are
	// not known here are passed on: the content mirrors the provider's.
	Content json.RawMessage
}

// Accepted is the provider's answer to a send.
type Accepted struct {
	// MessageID is the provider's.
	MessageID string
	// Recipient is the user that the provider resolved the address to; missing values are empty. Its
	// Phone may differ from the number that was dialled.
	Recipient User
	// Held says that the provider keeps the message back until it has judged the template.
	Held bool
}

// Receipt marks an inbound message as read.
type Receipt struct {
	MessageID string
	// Typing also shows a typing bubble for up to 25 seconds.
	Typing bool
}

// User is a person on the network; values that the provider left out are empty.
type User struct {
	Phone    string // E.164 with its plus
	ID       string // BSUID
	ParentID string // parent BSUID
	Username string // without a leading @
	Name     string // of the profile
}
