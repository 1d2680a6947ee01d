// Package accounts owns the business numbers of an organization and of its customers: connecting,
// status, registration and disconnecting. A number belongs to one organization in the whole
// service; the directory enforces that.
package accounts

import (
	"time"

	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/provider"
)

// ID identifies an account internally; callers address it by its PhoneNumberID.
type ID = ids.Plain[kind]

type kind struct{}

// FromLane is the account of a lane, whose id is that of the account.
func FromLane(lane ids.Any) ID { return ids.PlainFrom[kind](lane) }

// Status is whether messages are accepted for a number.
type Status string

// Only connected ones send.
const (
	Connected    Status = "connected"
	Disconnected Status = "disconnected"
	Degraded     Status = "degraded"
	Onboarding   Status = "onboarding"
)

// Account is a business number.
type Account struct {
	ID     ID
	TeamID orgs.TeamID
	// CustomerID is nil for a number of the organization itself; so is what follows of it.
	CustomerID     *customers.ID
	CustomerName   *string
	CustomerStatus *customers.Status
	// BusinessAccountID is the provider's; several numbers may share one.
	BusinessAccountID string
	// PhoneNumberID is the provider's, too, and in every path; nil while onboarding is in flight.
	PhoneNumberID *string
	PhoneNumber   *string
	Name          *string
	Status        Status
	StatusReason  *string
	facts

	Quality        *string
	MessagingLimit *string
	Throughput     *string
	// Coexistence numbers are in use in the phone app too.
	Coexistence bool
	// CooldownUntil is until when the provider refuses every message of the number; nil if it said no
	// such thing.
	CooldownUntil *time.Time
	// Generation is that of the number's route in the directory.
	Generation int64
	// Token is sealed; Service.Number opens it.
	Token            []byte
	RegisteringUntil *time.Time
	PinTriedAt       []time.Time
	DueAt            time.Time
	UpdatedAt        time.Time
	DeletedAt        *time.Time
}

// Draft names a number that is to be connected, with the token that may speak for it.
type Draft struct {
	// TeamID may be nil when the organization has one team, or with a CustomerID.
	TeamID     *orgs.TeamID
	CustomerID *customers.ID

	BusinessAccountID string
	PhoneNumberID     string
	Token             provider.Token
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	Status     Status
	CustomerID *customers.ID
}

// text is a value of the provider's that may be left out.
func text(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}
