package messages

import (
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

// refusedByNumber says why the number cannot send a message of that type and category now, or nil.
func refusedByNumber(from accounts.Account, kind string, category *string, now time.Time) *fault.Error {
	state := ""
	if from.ProviderStatus != nil {
		state = *from.ProviderStatus
	}
	switch {
	case state == provider.NumberPending || state == provider.NumberUnverified:
		return fault.New(fault.NumberNotVerified, "The provider has not verified this number yet. Verify it, then send again.")
	case state == provider.NumberRestricted || restricted(from, kind, category, now):
		return fault.New(fault.AccountRestricted, "The provider restricts this number: it may not send such messages for now. "+
			"Its business manager shows why and until when.")
	case from.Status != accounts.Connected:
		return fault.New(fault.UpstreamError, "This number is %s and cannot send. Connect or register it, then send again.", from.Status)
	default:
		return refusedByCustomer(from.CustomerStatus)
	}
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
	// Wrote says that the contact wrote to the number before.
	Wrote bool
}

// refusedByRecipient says why the person may not get a marketing template, or nil.
func refusedByRecipient(to recipient, requireOptIn bool) *fault.Error {
	switch {
	case requireOptIn && to.Marketing != contacts.OptedIn && !to.Wrote:
		return fault.New(fault.ConsentRequired, "This organization sends marketing only to people who opted in or wrote before, "+
			"and this person did neither.")
	case to.Marketing == contacts.OptedOut:
		return fault.New(fault.MarketingOptedOut, "This person opted out of marketing. "+
			"Only utility and authentication templates, and answers, reach them.")
	default:
		return nil
	}
}
