package api

import (
	"net/http"
	"time"

	"github.com/parley-chat/parley/internal/fault"
)

// The types of the error envelope.
const (
	invalidRequestError = "invalid_request_error"
	authenticationError = "authentication_error"
	permissionError     = "permission_error"
	notFoundError       = "not_found"
	conflictError       = "conflict"
	rateLimitError      = "rate_limit_error"
	apiError            = "api_error"
)

type statusRow struct {
	status int
	kind   string
}

// statuses maps each code to its HTTP status and type. A test checks that no code is missing.
var statuses = map[fault.Code]statusRow{ //nolint:gochecknoglobals // a table, never written
	fault.InvalidPhoneNumber:   {http.StatusBadRequest, invalidRequestError},
	fault.InvalidTemplateName:  {http.StatusBadRequest, invalidRequestError},
	fault.MissingRequiredField: {http.StatusBadRequest, invalidRequestError},
	fault.InvalidFieldValue:    {http.StatusBadRequest, invalidRequestError},
	fault.InvalidLimit:         {http.StatusBadRequest, invalidRequestError},
	fault.InvalidCursor:        {http.StatusBadRequest, invalidRequestError},
	fault.InvalidWebhookURL:    {http.StatusBadRequest, invalidRequestError},
	fault.InvalidEventType:     {http.StatusBadRequest, invalidRequestError},

	fault.MissingAPIKey: {http.StatusUnauthorized, authenticationError},
	fault.InvalidAPIKey: {http.StatusUnauthorized, authenticationError},
	fault.RevokedAPIKey: {http.StatusUnauthorized, authenticationError},
	fault.ExpiredAPIKey: {http.StatusUnauthorized, authenticationError},

	fault.SubscriptionInactive:  {http.StatusPaymentRequired, permissionError},
	fault.QuotaExceeded:         {http.StatusPaymentRequired, permissionError},
	fault.FeatureNotEntitled:    {http.StatusPaymentRequired, permissionError},
	fault.FeatureNotAvailable:   {http.StatusForbidden, permissionError},
	fault.OrganizationSuspended: {http.StatusForbidden, permissionError},

	fault.ResourceNotFound: {http.StatusNotFound, notFoundError},

	fault.IdempotencyInProgress:       {http.StatusConflict, conflictError},
	fault.WebhookSubscriptionDisabled: {http.StatusConflict, conflictError},
	fault.SetupLinkInactive:           {http.StatusConflict, conflictError},
	fault.RegistrationInProgress:      {http.StatusConflict, conflictError},
	fault.AlreadyExists:               {http.StatusConflict, conflictError},
	fault.CustomerArchived:            {http.StatusConflict, conflictError},
	fault.LimitReached:                {http.StatusConflict, conflictError},

	fault.IdempotencyKeyReuse:    {http.StatusUnprocessableEntity, invalidRequestError},
	fault.NumberNotVerified:      {http.StatusUnprocessableEntity, invalidRequestError},
	fault.RegistrationFailed:     {http.StatusUnprocessableEntity, invalidRequestError},
	fault.CannotRevokeLastSecret: {http.StatusUnprocessableEntity, invalidRequestError},
	fault.MediaNotFound:          {http.StatusUnprocessableEntity, invalidRequestError},
	fault.MarketingOptedOut:      {http.StatusUnprocessableEntity, invalidRequestError},
	fault.AccountRestricted:      {http.StatusUnprocessableEntity, invalidRequestError},
	fault.ConsentRequired:        {http.StatusUnprocessableEntity, invalidRequestError},
	fault.CustomerSuspended:      {http.StatusUnprocessableEntity, invalidRequestError},
	fault.UpstreamError:          {http.StatusUnprocessableEntity, invalidRequestError},

	fault.MethodNotAllowed:     {http.StatusMethodNotAllowed, invalidRequestError},
	fault.RequestTooLarge:      {http.StatusRequestEntityTooLarge, invalidRequestError},
	fault.UnsupportedMediaType: {http.StatusUnsupportedMediaType, invalidRequestError},
	fault.HeadersTooLarge:      {http.StatusRequestHeaderFieldsTooLarge, invalidRequestError},

	fault.RateLimitExceeded:     {http.StatusTooManyRequests, rateLimitError},
	fault.InternalError:         {http.StatusInternalServerError, apiError},
	fault.NotImplemented:        {http.StatusNotImplemented, apiError},
	fault.ProviderUpstreamError: {http.StatusBadGateway, apiError},
	fault.ServiceUnavailable:    {http.StatusServiceUnavailable, apiError},
}

func statusOf(code fault.Code) statusRow {
	if row, known := statuses[code]; known {
		return row
	}
	return statuses[fault.InternalError]
}

func errorType(code fault.Code) string { return statuses[code].kind }

// wholeSeconds rounds up, because a wait of the rounded-down time would end too early.
func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
