package accounts

import (
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/provider"
)

// facts is what is known of a number. The status follows from them and from nothing else,
// so the order in which they became known does not matter.
type facts struct {
	// ProviderStatus, Subscribed and Refusal are what the provider answered at CheckedAt.
	ProviderStatus *string
	Subscribed     bool
	Refusal        *string
	CheckedAt      time.Time
	// Notices are what it said by itself.
	Notices notices
	// ConnectedAt is when it first was connected: from then on it is never onboarding again.
	ConnectedAt *time.Time
}

// lost tells a number that does not exist for us any more; of all others that are not
// connected something can be repaired.
func lost(providerStatus string) bool {
	switch providerStatus {
	case provider.NumberDisconnected, provider.NumberBanned, provider.NumberDeleted, provider.NumberMigrated:
		return true
	}
	return false
}

// settle derives the status and its reason.
func (a *Account) settle(now time.Time) {
	a.Status, a.StatusReason = a.derive()
	if a.Status == Connected && a.ConnectedAt == nil {
		a.ConnectedAt = &now
	}
}

func (f *facts) derive() (Status, *string) {
	status := ""
	if f.ProviderStatus != nil {
		status = *f.ProviderStatus
	}
	repairable := Degraded
	if f.ConnectedAt == nil {
		repairable = Onboarding
	}
	switch {
	case f.Notices.of(link) != "":
		return Disconnected, text(f.Notices.of(link))
	case f.Notices.of(ban) != "":
		return Disconnected, text(f.Notices.of(ban))
	case f.Refusal != nil:
		return Disconnected, f.Refusal
	case lost(status):
		return Disconnected, reasonOf(status)
	case status != provider.NumberConnected:
		return repairable, reasonOf(status)
	case f.Notices.of(enrolment) != "":
		return repairable, text(f.Notices.of(enrolment))
	case !f.Subscribed:
		return repairable, text("not_subscribed")
	default:
		return Connected, nil
	}
}

// reasonOf is a status of the provider's as a reason.
func reasonOf(providerStatus string) *string {
	if providerStatus == "" {
		return nil
	}
	return text("number_" + strings.ToLower(providerStatus))
}

// learn takes over what the provider answered about the number at a time. An answer older
// than what is known is not listened to.
func (a *Account) learn(state provider.NumberState, subscribed bool, at time.Time) {
	if at.Before(a.CheckedAt) {
		return
	}
	a.ProviderStatus, a.Subscribed, a.Refusal, a.CheckedAt = text(state.Status), subscribed, nil, at
	if state.Phone != "" {
		a.PhoneNumber = &state.Phone
	}
	a.Quality, a.Throughput, a.Coexistence = text(state.Quality), text(string(state.Throughput)), state.Coexistence
	a.note(displayName, state.Name, at)
	a.note(messagingLimit, limitText(state.DailyLimit), at)
}

// refuse takes over that the provider would not answer, and why.
func (a *Account) refuse(reason string, at time.Time) {
	if at.Before(a.CheckedAt) {
		return
	}
	a.Refusal, a.CheckedAt = &reason, at
}

// Restricts tells whether the provider does not allow messages of that kind for now.
func (a *Account) Restricts(scope provider.RestrictionScope, now time.Time) bool {
	return scope != provider.RestrictsNothing && a.Notices.restricts(scope, now)
}
