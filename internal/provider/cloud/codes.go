package cloud

import (
	"net/http"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

// verdict is the meaning of one of the network's codes.
type verdict struct {
	class   provider.Class
	code    fault.Code
	limit   provider.Limit
	effect  provider.Effect
	wait    time.Duration // as the network's documents ask
	missing bool
}

// codes is the network's error table. The same code means the same at the answer and in a
// callback.
var codes = map[int]verdict{
	0:    {class: provider.AccountFault, code: provider.AuthExpired, effect: provider.EffectDisconnected},
	1:    {class: provider.Retryable, code: fault.UpstreamError},
	2:    {class: provider.Retryable, code: fault.UpstreamError},
	3:    {class: provider.AccountFault, code: provider.PermissionRevoked},
	4:    {class: provider.RateLimited, code: provider.AppRateLimited, limit: provider.LimitApp},
	10:   {class: provider.AccountFault, code: provider.PermissionRevoked},
	33:   {class: provider.AccountFault, code: provider.PermissionRevoked, missing: true},
	100:  {class: provider.Terminal, code: fault.UpstreamError},
	102:  {class: provider.AccountFault, code: provider.AuthExpired},
	190:  {class: provider.AccountFault, code: provider.AuthExpired, effect: provider.EffectDisconnected},
	368:  {class: provider.AccountFault, code: fault.AccountRestricted},
	450:  {class: provider.AccountFault, code: provider.AuthExpired},
	452:  {class: provider.AccountFault, code: provider.AuthExpired},
	613:  {class: provider.RateLimited, code: provider.AppRateLimited, limit: provider.LimitApp},
	803:  {class: provider.Terminal, code: fault.UpstreamError, missing: true},
	2500: {class: provider.AccountFault, code: provider.AuthExpired},

	80007: {class: provider.RateLimited, code: provider.AccountRateLimited, limit: provider.LimitBusinessAccount},
	80008: {class: provider.RateLimited, code: provider.AccountRateLimited, limit: provider.LimitBusinessAccount},

	130429: {class: provider.RateLimited, code: provider.AccountRateLimited, limit: provider.LimitNumber},
	130472: {class: provider.Terminal, code: provider.Undeliverable},
	130497: {class: provider.Terminal, code: provider.PolicyViolation},

	131000: {class: provider.Retryable, code: fault.UpstreamError},
	131005: {class: provider.AccountFault, code: provider.PermissionRevoked},
	131008: {class: provider.Terminal, code: fault.UpstreamError},
	131009: {class: provider.Terminal, code: fault.UpstreamError},
	131014: {class: provider.Retryable, code: provider.MediaUploadFailed},
	131016: {class: provider.Retryable, code: fault.UpstreamError},
	131020: {class: provider.Terminal, code: fault.UpstreamError},
	131021: {class: provider.Terminal, code: provider.Undeliverable},
	131026: {class: provider.Terminal, code: provider.RecipientUnavailable},
	131030: {class: provider.Terminal, code: provider.RecipientUnavailable},
	131031: {class: provider.AccountFault, code: provider.AccountLocked},
	131037: {class: provider.AccountFault, code: fault.AccountRestricted},
	131041: {class: provider.Terminal, code: fault.UpstreamError},
	131042: {class: provider.AccountFault, code: fault.AccountRestricted},
	131044: {class: provider.AccountFault, code: fault.AccountRestricted},
	131045: {class: provider.AccountFault, code: fault.UpstreamError, effect: provider.EffectDegraded},
	131047: {class: provider.Terminal, code: provider.OutsideWindow},
	131048: {class: provider.RateLimited, code: provider.AccountRateLimited, limit: provider.LimitNumber, wait: time.Hour},
	131049: {class: provider.Terminal, code: provider.Undeliverable},
	131050: {class: provider.Terminal, code: provider.MarketingBlockedByUser, effect: provider.EffectOptedOut},
	131051: {class: provider.Terminal, code: provider.UnsupportedMessageType},
	131052: {class: provider.Terminal, code: provider.MediaDownloadFailed},
	131053: {class: provider.Terminal, code: provider.MediaUploadFailed},
	131055: {class: provider.Terminal, code: provider.UnsupportedMessageType},
	131056: {class: provider.RateLimited, code: provider.AccountRateLimited, limit: provider.LimitPair, wait: 6 * time.Second},
	131057: {class: provider.Retryable, code: fault.UpstreamError, wait: time.Minute},
	131059: {class: provider.Terminal, code: fault.UpstreamError},
	131060: {class: provider.Terminal, code: provider.UnsupportedMessageType},
	131062: {class: provider.Terminal, code: provider.UnsupportedMessageType},
	131063: {class: provider.AccountFault, code: fault.AccountRestricted},
	131064: {class: provider.AccountFault, code: fault.AccountRestricted},

	132000: {class: provider.Terminal, code: fault.UpstreamError},
	132001: {class: provider.Terminal, code: provider.TemplateNotFound},
	132005: {class: provider.Terminal, code: fault.UpstreamError},
	132007: {class: provider.Terminal, code: provider.TemplatePolicyViolation},
	132008: {class: provider.Terminal, code: fault.UpstreamError},
	132012: {class: provider.Terminal, code: fault.UpstreamError},
	132015: {class: provider.Terminal, code: provider.TemplatePaused},
	132016: {class: provider.Terminal, code: provider.TemplatePaused},
	132018: {class: provider.Terminal, code: fault.UpstreamError},
	132068: {class: provider.Terminal, code: provider.FlowBlocked},
	132069: {class: provider.RateLimited, code: provider.FlowBlocked, limit: provider.LimitOperation},

	133000: {class: provider.AccountFault, code: fault.RegistrationFailed},
	133004: {class: provider.Retryable, code: fault.UpstreamError},
	133005: {class: provider.Terminal, code: fault.RegistrationFailed},
	133006: {class: provider.Terminal, code: fault.NumberNotVerified},
	133008: {class: provider.RateLimited, code: fault.RegistrationFailed, limit: provider.LimitOperation},
	133009: {class: provider.RateLimited, code: fault.RegistrationFailed, limit: provider.LimitOperation},
	133010: {class: provider.AccountFault, code: fault.UpstreamError, effect: provider.EffectDegraded},
	133015: {class: provider.RateLimited, code: fault.RegistrationFailed, limit: provider.LimitOperation, wait: 5 * time.Minute},
	133016: {class: provider.RateLimited, code: fault.RegistrationFailed, limit: provider.LimitOperation, wait: 72 * time.Hour},

	134011: {class: provider.AccountFault, code: fault.AccountRestricted},
	134100: {class: provider.Terminal, code: fault.UpstreamError},
	134101: {class: provider.Retryable, code: fault.UpstreamError, wait: 10 * time.Minute},
	134102: {class: provider.AccountFault, code: fault.UpstreamError},
	134103: {class: provider.AccountFault, code: fault.UpstreamError},
	135000: {class: provider.Terminal, code: fault.UpstreamError},
	137000: {class: provider.Terminal, code: provider.RecipientUnavailable},

	// Only in a node's health.
	141002: {class: provider.AccountFault, code: fault.AccountRestricted},
	141006: {class: provider.AccountFault, code: fault.AccountRestricted},
	141014: {class: provider.AccountFault, code: fault.AccountRestricted},

	2593107: {class: provider.Terminal, code: fault.UpstreamError},
	2593108: {class: provider.Terminal, code: fault.UpstreamError},
	2593109: {class: provider.Terminal, code: fault.UpstreamError},
}

// codeRanges are the rows of the table that stand for many codes.
var codeRanges = []struct {
	from, to int
	verdict
}{
	{200, 299, verdict{class: provider.AccountFault, code: provider.PermissionRevoked}},
	{131201, 131215, verdict{class: provider.Terminal, code: fault.UpstreamError}}, // groups
	{138000, 139999, verdict{class: provider.Terminal, code: fault.UpstreamError}}, // calls, flows, block list
	{147001, 147005, verdict{class: provider.Terminal, code: fault.UpstreamError}}, // usernames
}

// verdictOf falls back to the HTTP status, which is otherwise unreliable.
func verdictOf(code, subcode, status int, transient bool) verdict {
	found, known := codes[code]
	for _, row := range codeRanges {
		if !known && code >= row.from && code <= row.to {
			found, known = row.verdict, true
		}
	}
	switch {
	case code == 100 && subcode == 33:
		found.missing = true
	case known:
	case status == http.StatusTooManyRequests:
		found = verdict{class: provider.RateLimited, code: provider.AccountRateLimited, limit: provider.LimitNumber}
	case status >= http.StatusInternalServerError || transient:
		found = verdict{class: provider.Retryable, code: fault.UpstreamError}
	default:
		found = verdict{class: provider.Terminal, code: fault.UpstreamError}
	}
	return found
}

const paramComponents = "components"

// templateFault is the component, or else the field, that a subcode refuses.
type templateFault struct {
	component string
	param     string
	code      fault.Code
}

var templateFaults = map[int]templateFault{
	2388019: {param: "name", code: fault.LimitReached},
	2388023: {param: "name", code: fault.InvalidFieldValue},
	2388024: {param: "name", code: fault.AlreadyExists},
	2388040: {param: paramComponents, code: fault.InvalidFieldValue},
	2388047: {component: "HEADER", param: paramComponents, code: fault.InvalidFieldValue},
	2388050: {component: "BUTTONS", param: paramComponents, code: fault.InvalidFieldValue},
	2388072: {component: "BODY", param: paramComponents, code: fault.InvalidFieldValue},
	2388073: {component: "FOOTER", param: paramComponents, code: fault.InvalidFieldValue},
	2388109: {param: paramComponents, code: fault.InvalidFieldValue},
	2388153: {component: "BUTTONS", param: paramComponents, code: fault.InvalidFieldValue},
	2388293: {component: "BODY", param: paramComponents, code: fault.InvalidFieldValue},
	2388299: {component: "BODY", param: paramComponents, code: fault.InvalidFieldValue},
}
