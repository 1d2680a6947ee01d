package messages

import (
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

// The categories of templates that the checks distinguish.
const (
	utility        = "UTILITY"
	authentication = "AUTHENTICATION"
)

// isMarketing tells a template that opt-outs and consent are about. A category that is not known yet
// counts as marketing.
func isMarketing(kind string, category *string) bool {
	return kind == provider.TypeTemplate && (category == nil || *category != utility && *category != authentication)
}

// refuse adds refusals; nil is none.
func (p *prepared) refuse(found ...*fault.Error) {
	for _, refusal := range found {
		if refusal != nil {
			p.refusals = append(p.refusals, refusal)
		}
	}
}

// faulty tells whether one of the fields was refused.
func (p *prepared) faulty(params ...string) bool {
	return slices.ContainsFunc(p.refusals, func(refusal *fault.Error) bool { return slices.Contains(params, refusal.Param) })
}

// first is the refusal that a send answers, or nil.
func first(refusals []*fault.Error) *fault.Error {
	if len(refusals) == 0 {
		return nil
	}
	return refusals[0]
}

// refusedByNumber says why the number cannot send a message of that type and category now.
func refusedByNumber(from accounts.Account, kind string, category *string, now time.Time) (refusals []*fault.Error) {
	state := valueOf(from.ProviderStatus)
	if state == provider.NumberPending || state == provider.NumberUnverified {
		refusals = append(refusals, fault.New(fault.NumberNotVerified,
			"The provider has not verified this number yet. Verify it, then send again."))
	}
	if state == provider.NumberRestricted || restricted(from, kind, category, now) {
		refusals = append(refusals, fault.New(fault.AccountRestricted,
			"The provider restricts this number: it may not send such messages for now. Its business manager shows why and until when."))
	}
	if from.Status != accounts.Connected {
		refusals = append(refusals, fault.New(fault.UpstreamError,
			"This number is %s and cannot send. Connect or register it, then send again.", from.Status))
	}
	if refusal := refusedByCustomer(from.CustomerStatus); refusal != nil {
		refusals = append(refusals, refusal)
	}
	return refusals
}

// refusedByCoolDown says until when the provider lets the number send nothing, or nil.
func refusedByCoolDown(until *time.Time, now time.Time) *fault.Error {
	if until == nil || !now.Before(*until) {
		return nil
	}
	return fault.New(provider.AccountRateLimited, "The provider lets this number send nothing before %s. Send the message after that.",
		until.Format(time.RFC3339))
}

// restricted tells whether an open restriction covers such a message.
func restricted(from accounts.Account, kind string, category *string, now time.Time) bool {
	if kind != provider.TypeTemplate {
		return from.Restricts(provider.RestrictsReplies, now)
	}
	return from.Restricts(provider.RestrictsInitiated, now) ||
		category != nil && *category == utility && from.Restricts(provider.RestrictsUtility, now)
}

func refusedByCustomer(status *customers.Status) *fault.Error {
	if status == nil || *status != customers.Suspended && *status != customers.Archived {
		return nil
	}
	return fault.New(fault.CustomerSuspended, "The customer of this number is %s. "+
		"Nothing is sent from its numbers until it is active again.", *status)
}

// recipient is what is known of the person that a message is for.
type recipient struct {
	Marketing contacts.Marketing
	// Wrote says that the contact wrote to the number before, WroteAt when last.
	Wrote   bool
	WroteAt time.Time
	// Number is the contact's number; nil if it is not known.
	Number *string
}

// refusedByRecipient says why the person may not get a marketing template.
func refusedByRecipient(to recipient, requireOptIn bool) (refusals []*fault.Error) {
	if requireOptIn && to.Marketing != contacts.OptedIn && !to.Wrote {
		refusals = append(refusals, fault.New(fault.ConsentRequired,
			"This organization sends marketing only to people who opted in or wrote before, and this person did neither."))
	}
	if to.Marketing == contacts.OptedOut {
		refusals = append(refusals, fault.New(fault.MarketingOptedOut, "This person opted out of marketing. "+
			"Only utility and authentication templates, and answers, reach them."))
	}
	return refusals
}

// window is how long after the contact wrote the provider takes messages that are no templates.
const window = 24 * time.Hour

// inWindow tells whether the provider still takes answers to someone who last wrote at that time; zero is never.
func inWindow(wroteAt, now time.Time) bool { return !wroteAt.IsZero() && now.Sub(wroteAt) < window }
