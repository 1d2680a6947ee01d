package messages

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/library"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/templates"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

// Validation is what is known of a message before it is sent.
type Validation struct {
	// Errors are why it would fail now, in the order of the checks. It is valid without one.
	Errors []*fault.Error
	// Unchecked are further errors that it may fail with, which only the provider can find.
	Unchecked []*fault.Error
}

// Validate returns every reason why a draft would fail now: the subscription, the faults of the body,
// which the caller has found, the refusals of Send, those before an attempt, and what the provider is known to refuse. It
// only reads. A draft with faults is judged as far as it could be read.
func (s *Service) Validate(
	ctx context.Context, org orgs.ID, from accounts.Account, standing orgs.Standing, draft Draft, faults []*fault.Error,
) (Validation, error) {
	now, one := s.clock.Now(), &prepared{Draft: draft}
	one.refuse(fault.As(standing.RefusesWrites(now)))
	one.refuse(faults...)
	if err := s.check(from, one, s.findIn(ctx, org, from), s.libraryOf(ctx, s.db.Of(org), from)); err != nil {
		return Validation{}, err
	}
	err := s.quota.Refuses(ctx, org, standing.MessagesPerMonth)
	if err != nil && fault.Of(err) != fault.QuotaExceeded {
		return Validation{}, err
	}
	one.refuse(fault.As(err))
	to, err := s.recipientOf(ctx, org, from, one)
	if err != nil {
		return Validation{}, err
	}
	if to != nil && one.isMarketing() {
		one.refuse(refusedByRecipient(*to, standing.RequireOptIn)...)
	}
	one.refuse(refusedByCoolDown(from.CooldownUntil, now))
	one.refuse(refusedByProvider(from, one, to, now)...)
	return Validation{Errors: one.refusals, Unchecked: unchecked(one)}, nil
}

// isMarketing tells whether opt-outs and consent are about the draft. Of a template that the number
// does not have that is not known.
func (p *prepared) isMarketing() bool {
	return p.template != nil && isMarketing(p.Content.Type, p.category)
}

// recipientOf is what is known of the person that a draft is for, or nil if it names nobody.
func (s *Service) recipientOf(ctx context.Context, org orgs.ID, from accounts.Account, one *prepared) (*recipient, error) {
	if !one.sighting.Addressed {
		return nil, nil //nolint:nilnil // a draft without a recipient is no failure
	}
	known, err := s.recipients(ctx, s.db.Of(org), from, []contacts.Sighting{one.sighting})
	if err != nil {
		return nil, err
	}
	return &known[0], nil
}

// refusedByProvider says what the provider refuses, as far as that follows from what is stored here.
func refusedByProvider(from accounts.Account, one *prepared, to *recipient, now time.Time) (refusals []*fault.Error) {
	if from.PhoneNumber != nil && one.number == *from.PhoneNumber {
		refusals = append(refusals, fault.New(provider.Undeliverable, "A number cannot send to itself. Give another number in `to`.").At("to"))
	}
	if one.template != nil {
		refusals = append(refusals, refusedByReview(*one.template)...)
	}
	if voice := one.Content.Media; voice != nil && voice.Voice && len(one.files) > 0 && one.files[0].MIMEType != library.VoiceType {
		refusals = append(refusals, fault.New(provider.MediaUploadFailed, "A voice note must be OGG with the codec Opus, and this file is %s. "+
			"Send it without `voice`.", one.files[0].MIMEType).At("audio.voice"))
	}
	switch {
	case to == nil:
	case one.category != nil && *one.category == authentication && one.number == "" && to.Number == nil:
		refusals = append(refusals, fault.New(provider.UnsupportedMessageType, "An authentication template needs a phone number, "+
			"and that of this person is not known. Give it in `to`.").At("recipient"))
	case one.Content.Type != provider.TypeTemplate && !inWindow(to.WroteAt, now):
		refusals = append(refusals, fault.New(provider.OutsideWindow, "The recipient has not written to this number within the last 24 hours. "+
			"Send a template."))
	}
	return refusals
}

// refusedByReview says that the provider has not approved a template, or stopped it since.
func refusedByReview(template templates.Template) []*fault.Error {
	switch status := valueOf(template.ProviderStatus); {
	case template.Status == templates.Approved:
		return nil
	case status == provider.TemplateStatusPaused || status == provider.TemplateStatusDisabled:
		return []*fault.Error{fault.New(provider.TemplatePaused, "The provider has stopped this template: its status is %s. Send another.",
			status).At("template.name")}
	default:
		return []*fault.Error{fault.New(provider.TemplateNotFound, "The provider has not approved this template: its status is %s. "+
			"Wait for its approval, or send another template.",
			template.Status).At("template.name")}
	}
}

// doubt is an error of messages that nobody can know before.
type doubt struct {
	code    fault.Code
	message string
	// concerns tells the drafts that may fail so.
	concerns func(*prepared) bool
}

// unchecked returns the errors that a draft may still fail with. A code that is refused already is
// left out.
func unchecked(one *prepared) (left []*fault.Error) {
	for _, d := range doubts() {
		refused := slices.ContainsFunc(one.refusals, func(refusal *fault.Error) bool { return refusal.Code == d.code })
		if !refused && d.concerns(one) {
			left = append(left, fault.New(d.code, "%s", d.message))
		}
	}
	return left
}

// doubts are in the order of the specification's codes.
func doubts() []doubt {
	every := func(*prepared) bool { return true }
	template := func(p *prepared) bool { return p.Content.Type == provider.TypeTemplate }
	marketing := func(p *prepared) bool { return template(p) && (p.template == nil || p.isMarketing()) }
	// Consent and opt-out are about a known person and a known template.
	unjudged := func(p *prepared) bool { return marketing(p) && (p.template == nil || !p.sighting.Addressed) }
	unaddressed := func(p *prepared) bool { return !template(p) && !p.sighting.Addressed }
	flow := func(p *prepared) bool { return p.Content.Flow }
	link := func(p *prepared) bool { return p.Content.Links }
	file := func(p *prepared) bool { return p.Content.Links || len(p.Content.Library) > 0 }
	return []doubt{
		{
			provider.OutsideWindow,
			"Whether the recipient wrote within 24 hours was not checked, because the recipient is not valid.", unaddressed,
		},
		{fault.MarketingOptedOut, "Opt-outs were not checked, because the recipient or the template is not known.", unjudged},
		{provider.MarketingBlockedByUser, "The recipient may have stopped this business's marketing at the provider.", marketing},
		{provider.RecipientUnavailable, "The recipient may not be on the network, or not able to receive messages.", every},
		{provider.UnsupportedMessageType, "The provider may not support this type of message for this recipient.", every},
		{
			fault.AccountRestricted,
			"The provider may have restricted the account and not told yet, for example because of a payment.", every,
		},
		{provider.AccountLocked, "The provider may have locked the account and not told yet.", every},
		{fault.ConsentRequired, "Consent was not checked, because the recipient or the template is not known.", unjudged},
		{provider.PermissionRevoked, "The owner of the number may have withdrawn the permission to send from it.", every},
		{provider.AuthExpired, "The number's token may have expired.", every},
		{provider.AppRateLimited, "The provider may limit all messages of this service for a while.", every},
		{
			provider.AccountRateLimited,
			"The provider may limit the messages of this number, in all or to this recipient, for a while.", every,
		},
		{provider.TemplateNotFound, "The template may have been deleted or rejected at the provider, which has not told yet.", template},
		{
			provider.TemplatePaused,
			"The provider may have paused the template and not told yet, or pause it while it holds the message back.", template,
		},
		{provider.TemplatePolicyViolation, "The provider may find that the template with these values breaks its policy.", template},
		{provider.FlowBlocked, "The provider may have blocked the form, or limit how often it is sent.", flow},
		{provider.MediaUploadFailed, "The provider may not accept the file, because of its type, its size or its content.", file},
		{provider.MediaDownloadFailed, "The provider may not be able to download the file from its link.", link},
		{
			provider.Undeliverable,
			"The provider may decide not to deliver the message, for example because the recipient got too much marketing.", every,
		},
		{provider.PolicyViolation, "The provider may not let this business write to people in the recipient's country.", every},
		{fault.UpstreamError, "The provider may fail, or refuse the message for a reason that has no code of its own.", every},
	}
}

// ValidationResource is the JSON of a validation.
type ValidationResource struct {
	Object    string       `json:"object"`
	Valid     bool         `json:"valid"`
	Errors    []reasonJSON `json:"errors"`
	Unchecked []reasonJSON `json:"unchecked"`
}

type reasonJSON struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
	Param   string     `json:"param,omitempty"`
}

// Resource prints the validation.
func (v Validation) Resource() ValidationResource {
	return ValidationResource{
		Object: "message_validation", Valid: len(v.Errors) == 0, Errors: reasons(v.Errors), Unchecked: reasons(v.Unchecked),
	}
}

func reasons(all []*fault.Error) []reasonJSON {
	shown := make([]reasonJSON, len(all))
	for i, one := range all {
		shown[i] = reasonJSON{Code: one.Code, Message: one.Message, Param: one.Param}
	}
	return shown
}
