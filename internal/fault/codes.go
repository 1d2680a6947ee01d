package fault

// Code identifies an error for callers. A code never changes its meaning.
type Code string

// The codes of the specification, in the order of its table, then those that were added later.
// Codes of resources that do not exist yet are listed too, so that this list and that of the
// contract can be compared.
const (
	InvalidPhoneNumber   Code = "invalid_phone_number"
	InvalidTemplateName  Code = "invalid_template_name"
	MissingRequiredField Code = "missing_required_field"
	InvalidFieldValue    Code = "invalid_field_value"
	InvalidLimit         Code = "invalid_limit"
	InvalidCursor        Code = "invalid_cursor"
	InvalidWebhookURL    Code = "invalid_webhook_url"
	InvalidEventType     Code = "invalid_event_type"

	MissingAPIKey Code = "missing_api_key"
	InvalidAPIKey Code = "invalid_api_key"
	RevokedAPIKey Code = "revoked_api_key"
	ExpiredAPIKey Code = "expired_api_key"

	SubscriptionInactive  Code = "subscription_inactive"
	QuotaExceeded         Code = "quota_exceeded"
	FeatureNotEntitled    Code = "feature_not_entitled"
	FeatureNotAvailable   Code = "feature_not_available"
	OrganizationSuspended Code = "organization_suspended"

	ResourceNotFound Code = "resource_not_found"

	IdempotencyInProgress       Code = "idempotency_in_progress"
	WebhookSubscriptionDisabled Code = "webhook_subscription_disabled"
	SetupLinkInactive           Code = "setup_link_inactive"
	RegistrationInProgress      Code = "registration_in_progress"

	IdempotencyKeyReuse    Code = "idempotency_key_reuse"
	NumberNotVerified      Code = "whatsapp_number_not_verified"
	RegistrationFailed     Code = "whatsapp_registration_failed"
	CannotRevokeLastSecret Code = "cannot_revoke_last_secret"
	MediaNotFound          Code = "media_not_found"
	MarketingOptedOut      Code = "marketing_opted_out"
	AccountRestricted      Code = "account_restricted"
	ConsentRequired        Code = "consent_required"
	CustomerSuspended      Code = "customer_suspended"
	UpstreamError          Code = "upstream_error"

	RateLimitExceeded     Code = "rate_limit_exceeded"
	InternalError         Code = "internal_error"
	ProviderUpstreamError Code = "whatsapp_upstream_error"
	ServiceUnavailable    Code = "service_unavailable"
	NotImplemented        Code = "not_implemented"

	MethodNotAllowed     Code = "method_not_allowed"
	RequestTooLarge      Code = "request_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	HeadersTooLarge      Code = "headers_too_large"
	AlreadyExists        Code = "already_exists"
	CustomerArchived     Code = "customer_archived"
	LimitReached         Code = "limit_reached"
)

// Codes lists every code once. Tests compare it with the edge's table of statuses and with the
// contract.
func Codes() []Code {
	return []Code{
		InvalidPhoneNumber, InvalidTemplateName, MissingRequiredField, InvalidFieldValue,
		InvalidLimit, InvalidCursor, InvalidWebhookURL, InvalidEventType,
		MissingAPIKey, InvalidAPIKey, RevokedAPIKey, ExpiredAPIKey,
		SubscriptionInactive, QuotaExceeded, FeatureNotEntitled, FeatureNotAvailable, OrganizationSuspended,
		ResourceNotFound,
		IdempotencyInProgress, WebhookSubscriptionDisabled, SetupLinkInactive, RegistrationInProgress,
		IdempotencyKeyReuse, NumberNotVerified, RegistrationFailed, CannotRevokeLastSecret, MediaNotFound,
		MarketingOptedOut, AccountRestricted, ConsentRequired, CustomerSuspended, UpstreamError,
		RateLimitExceeded, InternalError, ProviderUpstreamError, ServiceUnavailable, NotImplemented,
		MethodNotAllowed, RequestTooLarge, UnsupportedMediaType, HeadersTooLarge, AlreadyExists, CustomerArchived, LimitReached,
	}
}
