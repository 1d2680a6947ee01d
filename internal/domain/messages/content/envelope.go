package content

import (
	"strings"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

// Context is the field `context` of a send: the message that it quotes.
type Context struct {
	// MessageID is the provider's id of an inbound message; nil when the field is missing.
	MessageID *string `json:"message_id"`
}

// ReplyTo returns the provider's id of the message that a message of this type quotes, or "". The
// context may be nil. It is checked and then ignored for reactions, because the network refuses it.
func (c *Context) ReplyTo(kind string) (string, error) {
	switch {
	case c == nil:
		return "", nil
	case c.MessageID == nil:
		return "", fault.Missing("context.message_id")
	case *c.MessageID == "":
		return "", fault.Invalid("context.message_id", "must not be empty")
	case strings.HasPrefix(*c.MessageID, ownID):
		return "", fault.Invalid("context.message_id", notOurs)
	case kind == provider.TypeReaction:
		return "", nil
	default:
		return *c.MessageID, nil
	}
}

// ownID begins our own ids of messages, which the network does not know.
const (
	ownID   = "msg_"
	notOurs = "must be the provider's id of the message, which its field `message_id` and its webhooks have, and not our own id"
)

// maxReference is the largest number of characters of `biz_opaque_callback_data`.
const maxReference = 512

// CheckReference checks the caller's own reference, the field `biz_opaque_callback_data` of a send.
func CheckReference(reference string) error {
	if length := utf8.RuneCountInString(reference); length > maxReference {
		return fault.Invalid("biz_opaque_callback_data", span(length, 0, maxReference, "characters"))
	}
	return nil
}
