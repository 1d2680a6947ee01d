package provider

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/fault"
)

// Class says what must change before a failed call can succeed.
type Class string

// The classes.
const (
	Retryable    Class = "retryable"     // time: network, outage
	RateLimited  Class = "rate_limited"  // more time, and slower after it
	AccountFault Class = "account_fault" // a person must repair the account, the token or a permission
	Terminal     Class = "terminal"      // nothing helps: this request will never succeed
)

// Delivery says whether a failed request was executed.
type Delivery string

// The values. Sent is for a request without an error.
const (
	Sent      Delivery = "sent"
	NotSent   Delivery = "not_sent"  // nothing left this machine, or the provider refused it
	Ambiguous Delivery = "ambiguous" // it may have been executed
)

// Limit is the scope of a rate limit.
type Limit string

// Limits, from the narrowest to the widest.
const (
	LimitPair            Limit = "pair" // this number to this recipient
	LimitNumber          Limit = "number"
	LimitBusinessAccount Limit = "business_account"
	LimitApp             Limit = "app"
	LimitOperation       Limit = "operation" // this operation only: a registration, a flow
)

// Effect is what an error says about the account or the recipient beyond the one request.
type Effect string

// Effects.
const (
	EffectNone         Effect = ""
	EffectDisconnected Effect = "disconnected" // the token or the number does not work any more
	EffectDegraded     Effect = "degraded"     // the number has to be registered again
	EffectOptedOut     Effect = "opted_out"    // the recipient stopped marketing
)

// The specification's codes of a message's error that the public API's own errors lack.
const (
	OutsideWindow           fault.Code = "outside_24h_window"
	MarketingBlockedByUser  fault.Code = "marketing_blocked_by_user"
	RecipientUnavailable    fault.Code = "recipient_unavailable"
	UnsupportedMessageType  fault.Code = "unsupported_message_type"
	AccountLocked           fault.Code = "account_locked"
	PermissionRevoked       fault.Code = "permission_revoked"
	AuthExpired             fault.Code = "auth_expired"
	AppRateLimited          fault.Code = "app_rate_limited"
	AccountRateLimited      fault.Code = "account_rate_limited"
	TemplateNotFound        fault.Code = "template_not_found"
	TemplatePaused          fault.Code = "template_paused"
	TemplatePolicyViolation fault.Code = "template_policy_violation"
	FlowBlocked             fault.Code = "flow_blocked"
	MediaUploadFailed       fault.Code = "media_upload_failed"
	MediaDownloadFailed     fault.Code = "media_download_failed"
	Undeliverable           fault.Code = "undeliverable"
	PolicyViolation         fault.Code = "policy_violation"
)

// Codes lists each of these codes once. A test compares them with those that the contract names.
func Codes() []fault.Code {
	return []fault.Code{
		OutsideWindow, MarketingBlockedByUser, RecipientUnavailable, UnsupportedMessageType, AccountLocked, PermissionRevoked, AuthExpired,
		AppRateLimited, AccountRateLimited, TemplateNotFound, TemplatePaused, TemplatePolicyViolation, FlowBlocked, MediaUploadFailed,
		MediaDownloadFailed, Undeliverable, PolicyViolation,
	}
}

// Error is how the provider, or the way to it, failed. It never holds a token.
type Error struct {
	// Operation is the name of the call: `send`, `register`, …; empty for an error in a callback.
	Operation string
	Class     Class
	Delivery  Delivery
	// Code is the specification's.
	Code fault.Code
	// ProviderCode and Subcode are the provider's own; nil and 0 when it named none.
	ProviderCode *int
	Subcode      int
	// Title and Details are the provider's words, cleaned: one line each, bounded.
	Title   string
	Details string
	// Param is the field of a template that the provider refused, as far as it said.
	Param string
	// HTTPStatus is 0 when there was no answer.
	HTTPStatus int
	// RetryAfter is how long the provider asks to wait, or zero.
	RetryAfter time.Duration
	Limit      Limit  // of a RateLimited
	Effect     Effect // beyond the request
	Missing    bool   // the named object does not exist, or the token may not see it
	// Trace is the provider's id of the failure, for its support.
	Trace string

	cause error
}

// Because adds the cause. It must hold no secret: errors of net/http hold the URL.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("provider")
	if e.Operation != "" {
		text.WriteString(" " + e.Operation)
	}
	fmt.Fprintf(&text, ": %s, %s", e.Class, e.Delivery)
	if e.ProviderCode != nil {
		fmt.Fprintf(&text, ", code %d", *e.ProviderCode)
	}
	if e.Subcode != 0 {
		fmt.Fprintf(&text, "/%d", e.Subcode)
	}
	if e.HTTPStatus != 0 {
		fmt.Fprintf(&text, ", HTTP %d", e.HTTPStatus)
	}
	for _, words := range []string{e.Title, e.Details} {
		if words != "" {
			text.WriteString(": " + words)
		}
	}
	if e.cause != nil {
		text.WriteString(": " + e.cause.Error())
	}
	return text.String()
}

func (e *Error) Unwrap() error { return e.cause }

// Trouble says in a sentence what kept the provider from doing what was asked, when nothing is wrong with the request.
func (e *Error) Trouble() string {
	switch {
	case e.HTTPStatus == 0:
		return "The provider did not answer."
	case e.Class == RateLimited:
		return "The provider takes no more such requests for a while."
	default:
		return fmt.Sprintf("The provider answered with an error (HTTP %d).", e.HTTPStatus)
	}
}

// Words is the provider's explanation for a person.
func (e *Error) Words() string {
	if e.Details != "" {
		return e.Details
	}
	return e.Title
}

// As finds the provider's error in err's chain.
func As(err error) (*Error, bool) { return errors.AsType[*Error](err) }

// RegistrationFault words an error of Register as the specification's refusals do.
func RegistrationFault(err error) error {
	failed, ok := As(err)
	switch {
	case !ok:
		return err
	case failed.Code == fault.NumberNotVerified:
		return fault.New(fault.NumberNotVerified, "The provider has not verified this number yet. Verify it, then register again.")
	case failed.Class == Retryable:
		return fault.New(fault.ProviderUpstreamError, "%s Try again in a minute with the same PIN.", failed.Trouble())
	}
	refusal := fault.New(fault.RegistrationFailed, "The provider refused the registration: %s", sentence(failed.Words()))
	refusal.RetryAfter = failed.RetryAfter
	return refusal
}

func sentence(words string) string {
	if words == "" {
		return "it gave no reason."
	}
	if strings.HasSuffix(words, ".") {
		return words
	}
	return words + "."
}
