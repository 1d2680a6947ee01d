package wire

import (
	"fmt"
	"net/http"
)

// Error is an error of the network, in an answer or in a callback.
type Error struct {
	Code      int
	Subcode   int
	HTTP      int // status
	Title     string
	Details   string
	UserTitle string // for the people who use the app
	UserText  string
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Code, e.Title, e.Details) }

// With adds a subcode.
func (e *Error) With(subcode int) *Error {
	e.Subcode = subcode
	return e
}

// Said adds the texts for the people who use the app.
func (e *Error) Said(title, text string) *Error {
	e.UserTitle, e.UserText = title, text
	return e
}

// Refusal returns the error of a code with the network's title and HTTP status. A code that is
// not documented has status 400.
func Refusal(code int, details string, args ...any) *Error {
	if len(args) > 0 {
		details = fmt.Sprintf(details, args...)
	}
	known, found := codes[code]
	if !found {
		known = row{http.StatusBadRequest, "Unknown error"}
		switch {
		case code > 200 && code < 300:
			known = row{http.StatusForbidden, "Permission error"}
		case code == http.StatusTooManyRequests:
			known = row{http.StatusTooManyRequests, "Too many requests"}
		}
	}
	return &Error{Code: code, HTTP: known.status, Title: known.title, Details: details}
}

// Known lists all documented codes.
func Known() []int {
	all := make([]int, 0, len(codes))
	for code := range codes {
		all = append(all, code)
	}
	return all
}

type row struct {
	status int
	title  string
}

var codes = map[int]row{
	0:       {401, "AuthException"},
	1:       {400, "API Unknown"},
	2:       {503, "API Service"},
	3:       {500, "API Method"},
	4:       {400, "Application request limit reached"},
	10:      {403, "Permission Denied"},
	33:      {400, "Parameter value is not valid"},
	100:     {400, "Invalid parameter"},
	102:     {400, "Session key invalid or no longer valid"},
	190:     {401, "Access token has expired"},
	200:     {403, "Permissions error"},
	368:     {403, "Temporarily blocked for policies violations"},
	450:     {400, "Session key specified has expired"},
	452:     {400, "Session key is invalid"},
	613:     {400, "Calls to this api have exceeded the rate limit"},
	803:     {404, "Some of the aliases you requested do not exist"},
	2500:    {400, "An active access token must be used to query information about the current user"},
	80007:   {400, "Rate limit issues"},
	80008:   {400, "There have been too many calls to this WhatsApp Business account"},
	130429:  {400, "Rate limit hit"},
	130472:  {400, "User's number is part of an experiment"},
	130497:  {403, "Business account is restricted from messaging users in this country"},
	131000:  {500, "Something went wrong"},
	131005:  {403, "Access denied"},
	131008:  {400, "Required parameter is missing"},
	131009:  {400, "Parameter value is not valid"},
	131014:  {400, "Request for url failed"},
	131016:  {500, "Service unavailable"},
	131020:  {400, "Group is not available"},
	131021:  {400, "Recipient cannot be sender"},
	131026:  {400, "Message undeliverable"},
	131030:  {400, "Recipient phone number not in allowed list"},
	131031:  {403, "Business Account locked"},
	131037:  {400, "WhatsApp provided number needs display name approval before message can be sent"},
	131041:  {400, "Group message is not supported"},
	131042:  {400, "Business eligibility payment issue"},
	131044:  {400, "Business eligibility payment issue for calling"},
	131045:  {500, "Incorrect certificate"},
	131047:  {400, "Re-engagement message"},
	131048:  {400, "Spam rate limit hit"},
	131049:  {400, "This message was not delivered to maintain healthy ecosystem engagement"},
	131050:  {400, "User has stopped receiving marketing messages from this business"},
	131051:  {400, "Message type unknown"},
	131052:  {400, "Media download error"},
	131053:  {400, "Media upload error"},
	131055:  {400, "Method not allowed"},
	131056:  {400, "(Business Account, Consumer Account) pair rate limit hit"},
	131057:  {500, "Account in maintenance mode"},
	131059:  {400, "Group limit reached"},
	131060:  {400, "This message is currently unavailable"},
	131062:  {400, "Business-scoped user ID recipients are not supported for this message"},
	131063:  {400, "Marketing templates are not enabled on Cloud API"},
	131064:  {400, "Messaging limit imposed for template misclassification"},
	131201:  {400, "Group does not exist"},
	131215:  {400, "Group is not eligible"},
	132000:  {400, "Template Param Count Mismatch"},
	132001:  {404, "Template does not exist"},
	132005:  {400, "Template hydrated text too long"},
	132007:  {400, "Template content policy violated"},
	132008:  {400, "Template parameter value is not valid"},
	132012:  {400, "Template Parameter Format Mismatch"},
	132015:  {400, "Template is paused"},
	132016:  {400, "Template is disabled"},
	132018:  {400, "Template parameters are not valid"},
	132068:  {400, "Flow is blocked"},
	132069:  {400, "Flow is throttled"},
	133000:  {500, "Incomplete deregistration"},
	133004:  {503, "Server temporarily unavailable"},
	133005:  {400, "Two step verification PIN mismatch"},
	133006:  {400, "Phone number re-verification needed"},
	133008:  {400, "Too many two step verification PIN guesses"},
	133009:  {400, "Two step verification PIN guessed too fast"},
	133010:  {400, "Phone number not registered"},
	133015:  {400, "Please wait a few minutes before attempting to register this phone number"},
	133016:  {400, "Account register or deregister rate limit exceeded"},
	134011:  {400, "WhatsApp Payments terms of service has not been accepted"},
	134100:  {400, "Only marketing messages supported"},
	134101:  {400, "Template is still syncing"},
	134102:  {500, "Template unavailable for use"},
	134103:  {500, "Marketing endpoint unavailable"},
	135000:  {400, "Generic user error"},
	137000:  {400, "Recipient identity key does not match"},
	2593107: {400, "Synchronization request limit exceeded"},
	2593108: {400, "Synchronization requested outside of the time window"},
	2593109: {400, "History sharing was turned off by the business"},
}
