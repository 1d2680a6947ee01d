// Package provider is the port to the messaging network: requests, results, notifications and
// errors, in neutral words. The wire format is known to package cloud alone. An error always says
// whether the request may have left this machine; a caller must read that before it repeats a
// call.
package provider

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// Port is every operation of the network. A consumer declares the part that it needs.
// Errors of all methods that take a ctx are *Error.
type Port interface {
	Sender
	MediaStore
	TemplateStore
	Numbers
	Signup
	Callbacks
}

// Sender sends messages. The network has no idempotency key: an ambiguous call may have been
// executed, and only a callback with its Reference proves it.
type Sender interface {
	// Send sends one message. Without an error the provider has accepted it.
	Send(ctx context.Context, from Number, message Outbound) (Accepted, error)
	// MarkRead marks an inbound message, and all before it, as read.
	MarkRead(ctx context.Context, by Number, receipt Receipt) error
}

// MediaStore keeps files at the provider: uploaded files for 30 days, received files for 7 days.
// An id works only for the number that it belongs to.
type MediaStore interface {
	UploadMedia(ctx context.Context, by Number, file File) (mediaID string, err error)
	// FindMedia answers where the file can be downloaded for the next 5 minutes.
	FindMedia(ctx context.Context, by Number, mediaID string) (Media, error)
	// DownloadMedia opens the file at an URL that FindMedia or a callback gave. The caller
	// closes its Body, and bounds what it reads and, by ctx, for how long.
	DownloadMedia(ctx context.Context, by Number, location string) (Download, error)
	DeleteMedia(ctx context.Context, by Number, mediaID string) error
}

// TemplateStore holds the templates that the provider reviews.
type TemplateStore interface {
	// ListTemplates answers one page; its Next, when not empty, is After of the following one.
	ListTemplates(ctx context.Context, of BusinessAccount, query TemplateQuery) (TemplatePage, error)
	FetchTemplate(ctx context.Context, of BusinessAccount, templateID string) (Template, error)
	CreateTemplate(ctx context.Context, of BusinessAccount, draft TemplateDraft) (TemplateCreated, error)
	// EditTemplate replaces what is not empty, the components as a whole, and asks for review.
	EditTemplate(ctx context.Context, of BusinessAccount, templateID string, edit TemplateEdit) error
	// DeleteTemplate deletes the template of that id, or every language of the name without an id.
	DeleteTemplate(ctx context.Context, of BusinessAccount, name, templateID string) error
	// UploadExample uploads, resuming where it broke off, the file that a template's header
	// shows as its example, and answers the handle for `header_handle`.
	UploadExample(ctx context.Context, token Token, file File) (handle string, err error)
}

// Numbers are the businesses' phone numbers.
type Numbers interface {
	FetchNumber(ctx context.Context, number Number) (NumberState, error)
	ListNumbers(ctx context.Context, of BusinessAccount) ([]NumberState, error)
	// Register connects a verified number. RegistrationFault words its errors for a caller.
	Register(ctx context.Context, number Number, pin PIN) error
	Deregister(ctx context.Context, number Number) error
	// SyncPhoneApp asks, once each and within a day of signup, for the contacts or the
	// history of a number that lives in the phone app too.
	SyncPhoneApp(ctx context.Context, number Number, what PhoneAppData) error
}

// Signup is the server's part of connecting a business.
type Signup interface {
	// SignupURL is the page on which a business grants access. It comes back to the redirect
	// URL with `state` and either `code` or `error`.
	SignupURL(dialog SignupDialog) string
	// ExchangeCode gives the token of a business for a code that is at most 30 seconds old
	// and works once.
	ExchangeCode(ctx context.Context, code SignupCode) (Grant, error)
	// InspectToken says what a token is good for: the only trustworthy source of the
	// business accounts behind a signup.
	InspectToken(ctx context.Context, token Token) (TokenState, error)
	// Subscribe lets callbacks of a business account come to us; repeating it is harmless.
	Subscribe(ctx context.Context, to BusinessAccount) error
	Unsubscribe(ctx context.Context, from BusinessAccount) error
	Subscribed(ctx context.Context, to BusinessAccount) (bool, error)
}

// Callbacks verifies and reads the bodies that the provider pushes.
type Callbacks interface {
	// Challenge answers the provider's question whether the callback address is ours.
	Challenge(query url.Values) (answer string, ours bool)
	// Verify checks the signature of the raw bytes. It returns the index of the app secret that
	// matched, 0 being the newest.
	Verify(header http.Header, body ...[]byte) (secret int, err error)
	// Divide divides a body by the numbers and business accounts that it names, into bodies of
	// at most so many items. A body for one address that is short enough stays as it is. Items
	// are not read. Only a body that is no JSON object is an error.
	Divide(body []byte, most int) ([]Addressed, error)
	// Parse makes one notification of each item, in the order received. Only a body that is no
	// JSON object is an error; an item that is not understood is an Unknown. The notifications
	// share the memory of the body, so the caller must not change it.
	Parse(body []byte) ([]Notification, error)
}

// Number is a business number and a token that may act for it.
type Number struct {
	ID    string
	Token Token
}

// BusinessAccount owns numbers and templates; the token may act for it.
type BusinessAccount struct {
	ID    string
	Token Token
}

// Token authorizes calls. It prints as [hidden]; Reveal returns the clear text.
type Token struct{ telemetry.Secret }

// NewToken wraps the clear text.
func NewToken(value string) Token { return Token{telemetry.Secret(value)} }

// Empty reports whether there is no token.
func (t Token) Empty() bool { return t.Secret == "" }

// PIN is a number's two-step verification PIN. It prints as [hidden] and is never stored.
type PIN struct{ telemetry.Secret }

// NewPIN wraps the six digits.
func NewPIN(value string) PIN { return PIN{telemetry.Secret(value)} }
