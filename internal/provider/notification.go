package provider

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/platform/jsonout"
)

// Notification is one item that the provider pushed. At least one of its addresses is set.
type Notification struct {
	// BusinessAccountID is the account that it concerns, Portfolio the owner when the
	// provider named that one too.
	BusinessAccountID string
	Portfolio         string
	// NumberID is empty for a notification about a business account as a whole; DisplayNumber
	// (E.164) may be known without it.
	NumberID      string
	DisplayNumber string
	// At is when the provider sent it, zero when it did not say. Items have times of their own.
	At time.Time
	// Field is the provider's name of the kind of change.
	Field string
	Item  Item
	// Raw is the item as it was received, Contact the profile that came with it (or nil).
	Raw     json.RawMessage
	Contact json.RawMessage

	// list is the array of the change's value that held the item; empty: the value is the item.
	list string
}

// Addressed is the part of a callback's body that concerns one number or, where it names no
// number, one business account. Both ids are empty when the body names neither.
type Addressed struct {
	NumberID          string
	BusinessAccountID string
	// Bodies are what Parse reads, in the order received.
	Bodies [][]byte
}

// In says which array of the change's value held the item; the adapter calls it.
func (n Notification) In(list string) Notification {
	n.list = list
	return n
}

// The words of an envelope.
const (
	envelopeObject  = "chat_business_account"
	envelopeProduct = "chat"
)

type envelope struct {
	Object string          `json:"object"`
	Entry  []envelopeEntry `json:"entry"`
}

type envelopeEntry struct {
	ID      string           `json:"id"`
	Time    int64            `json:"time,omitempty"`
	Changes []envelopeChange `json:"changes"`
}

type envelopeChange struct {
	Value json.RawMessage `json:"value"`
	Field string          `json:"field"`
}

type envelopeMetadata struct {
	DisplayPhoneNumber string `json:"display_phone_number"`
	PhoneNumberID      string `json:"phone_number_id"`
}

// Envelope is a body with this item alone, in the specification's words. The events
// message.received and message.status carry it. Parse reads it again, so that an item can be
// stored and applied later.
func (n Notification) Envelope() (json.RawMessage, error) {
	value := n.Raw
	if n.list != "" {
		var err error
		if value, err = n.value(); err != nil {
			return nil, err
		}
	}
	entry := envelopeEntry{ID: n.BusinessAccountID, Changes: []envelopeChange{{Field: n.Field, Value: value}}}
	if n.Portfolio != "" {
		entry.ID = n.Portfolio
	}
	if !n.At.IsZero() {
		entry.Time = n.At.Unix()
	}
	return jsonout.Marshal(envelope{Object: envelopeObject, Entry: []envelopeEntry{entry}})
}

// value is the change's value with the item as the only one of its list.
func (n Notification) value() (json.RawMessage, error) {
	var text bytes.Buffer
	metadata, err := jsonout.Marshal(envelopeMetadata{DisplayPhoneNumber: digits(n.DisplayNumber), PhoneNumberID: n.NumberID})
	if err != nil {
		return nil, err
	}
	text.WriteString(`{"messaging_product":"` + envelopeProduct + `","metadata":`)
	text.Write(metadata)
	if len(n.Contact) > 0 {
		text.WriteString(`,"contacts":[`)
		text.Write(n.Contact)
		text.WriteString(`]`)
	}
	name, err := jsonout.Marshal(n.list)
	if err != nil {
		return nil, err
	}
	text.WriteByte(',')
	text.Write(name)
	text.WriteString(`:[`)
	text.Write(n.Raw)
	text.WriteString(`]}`)
	return text.Bytes(), nil
}

// digits drops the plus: inside of an envelope numbers have none.
func digits(phone string) string {
	if len(phone) > 0 && phone[0] == '+' {
		return phone[1:]
	}
	return phone
}
