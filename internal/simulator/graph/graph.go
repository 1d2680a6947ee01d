// Package graph serves the provider's API: the operations on numbers, business accounts,
// templates, media and apps, the exchange of tokens, and the media host.
package graph

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// object is a JSON object that is built or read by hand.
type object = map[string]any

// Server answers requests of apps.
type Server struct{ *state.Simulation }

// call is one request, with the token and the objects that it names.
type call struct {
	wire.Request

	version  string
	token    *state.Token
	app      *state.App
	account  *state.Account
	number   *state.Number
	template *state.Template
	media    *state.File
	upload   *state.Upload
}

// handler returns the body of the answer.
type handler func(s *Server, c *call) (any, error)

// routes holds the operations by method, kind of the object in the path, and edge.
var routes = map[string]handler{
	"POST number messages":             wire.WithForm((*Server).sendMessage),
	"POST number marketing_messages":   wire.WithForm((*Server).sendMarketing),
	"POST number media":                (*Server).uploadMedia,
	"GET number":                       wire.Locked((*Server).readNumber),
	"POST number":                      wire.WithForm((*Server).changeNumber),
	"POST number register":             wire.WithForm(wire.Locked((*Server).register)),
	"POST number deregister":           wire.Locked((*Server).deregister),
	"POST number request_code":         wire.WithForm(wire.Locked((*Server).requestCode)),
	"POST number verify_code":          wire.WithForm(wire.Locked((*Server).verifyCode)),
	"POST number smb_app_data":         wire.WithForm(wire.Locked((*Server).syncPhoneApp)),
	"GET number username":              wire.Locked((*Server).readUsername),
	"POST number username":             wire.WithForm(wire.Locked((*Server).changeUsername)),
	"DELETE number username":           wire.Locked((*Server).deleteUsername),
	"GET account":                      wire.Locked((*Server).readAccount),
	"GET account phone_numbers":        wire.Locked((*Server).listNumbers),
	"GET account message_templates":    wire.Locked((*Server).listTemplates),
	"POST account message_templates":   wire.WithForm(wire.Locked((*Server).createTemplate)),
	"DELETE account message_templates": wire.WithForm(wire.Locked((*Server).deleteTemplates)),
	"GET account subscribed_apps":      wire.Locked((*Server).listSubscribed),
	"POST account subscribed_apps":     wire.WithForm((*Server).subscribe),
	"DELETE account subscribed_apps":   wire.Locked((*Server).unsubscribe),
	"GET template":                     wire.Locked((*Server).readTemplate),
	"POST template":                    wire.WithForm(wire.Locked((*Server).editTemplate)),
	"POST template unpause":            wire.Locked((*Server).unpauseTemplate),
	"GET media":                        wire.Locked((*Server).readMedia),
	"DELETE media":                     wire.Locked((*Server).deleteMedia),
	"POST app uploads":                 wire.WithForm(wire.Locked((*Server).beginUpload)),
	"GET app subscriptions":            wire.Locked((*Server).readSubscription),
	"POST app subscriptions":           wire.WithForm((*Server).changeSubscription),
	"POST upload":                      (*Server).continueUpload,
	"GET upload":                       wire.Locked((*Server).readUpload),
}

// managementEdges holds the operations whose calls are limited by the hour.
var managementEdges = map[string]bool{
	"account": true, "account phone_numbers": true, "account message_templates": true, "account subscribed_apps": true, "number": true,
}

var versionPattern = regexp.MustCompile(`^v[0-9]{1,3}\.[0-9]{1,2}$`)

// ServeHTTP answers a request to the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: wire.Request{W: w, R: r, Now: s.Now()}, version: "v24.0"}
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if versionPattern.MatchString(segments[0]) {
		c.version, segments = segments[0], segments[1:]
	}
	header := w.Header()
	header.Set("facebook-api-version", c.version)
	header.Set("x-fb-trace-id", traceID())
	answer, err := s.route(c, segments)
	if err != nil {
		s.refuse(c, err)
		return
	}
	s.write(c, answer)
}

// write answers with what a handler returned.
func (s *Server) write(c *call, answer any) {
	switch answer := answer.(type) {
	case *scriptedAnswer:
		s.writeScripted(c, answer)
	case rawAnswer:
		answer()
	default:
		wire.Answer(c.W, http.StatusOK, answer)
	}
}

// rawAnswer writes an answer that is not JSON.
type rawAnswer func()

// route finds the handler of a call and runs it.
func (s *Server) route(c *call, segments []string) (any, error) {
	switch path := strings.Join(segments, "/"); path {
	case "oauth/access_token":
		return wire.WithForm(wire.Locked((*Server).exchange))(s, c)
	case "debug_token":
		return s.debugToken(c)
	case "dialog/oauth":
		return s.dialog(c)
	case "":
		return nil, wire.Refusal(100, "Unsupported %s request.", strings.ToLower(c.R.Method))
	}
	if err := s.authenticate(c); err != nil {
		return nil, err
	}
	edge := strings.Join(segments[1:], "/")
	kind, err := s.resolve(c, segments[0])
	if err != nil {
		return nil, err
	}
	name := kind
	if edge != "" {
		name += " " + edge
	}
	if err := s.countCall(c, name); err != nil {
		return nil, err
	}
	handle, found := routes[c.R.Method+" "+name]
	if !found {
		return nil, wire.Refusal(100, "Unsupported %s request. Object with ID '%s' does not support this operation.",
			strings.ToLower(c.R.Method), segments[0]).With(33)
	}
	if edge == wire.FieldMessages { // a send is matched once its recipient is known
		return handle(s, c)
	}
	return s.runScripted(c, edge, handle)
}

// authenticate sets the token of a call.
func (s *Server) authenticate(c *call) (err error) {
	scheme, value, _ := strings.Cut(c.R.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "OAuth") {
		value = c.R.URL.Query().Get("access_token")
	}
	s.Lock()
	defer s.Unlock()
	c.token, err = s.findToken(value, c.Now)
	return err
}

// findToken returns a valid token: one that was issued, or an app's id and secret.
func (s *Server) findToken(value string, now time.Time) (*state.Token, error) {
	if value == "" {
		return nil, wire.Refusal(190, "An access token is required to request this resource.")
	}
	if id, secret, isApp := strings.Cut(value, "|"); isApp {
		if a := s.Data.Apps[id]; a != nil && a.Secret == secret {
			return &state.Token{Value: value, App: id}, nil
		}
	}
	found := s.Data.Tokens[value]
	switch {
	case found == nil:
		return nil, wire.Refusal(190, "Invalid OAuth access token - Cannot parse access token")
	case found.Revoked:
		return nil, wire.Refusal(190, "Error validating access token: The session has been invalidated.").With(460)
	case !found.Expires.IsZero() && !now.Before(found.Expires):
		return nil, wire.Refusal(190, "Error validating access token: Session has expired.").With(463)
	}
	return found, nil
}

// resolve sets the object of an id, and refuses objects that the token does not cover.
func (s *Server) resolve(c *call, id string) (kind string, err error) {
	s.Lock()
	defer s.Unlock()
	d := s.Data
	if id == "app" { // the app of the token
		id = c.token.App
	}
	switch {
	case d.Numbers[id] != nil:
		kind, c.number = "number", d.Numbers[id]
		c.account = c.number.Account
	case d.Accounts[id] != nil:
		kind, c.account = "account", d.Accounts[id]
	case d.Templates[id] != nil:
		kind, c.template = "template", d.Templates[id]
		c.account = c.template.Account
	case d.Apps[id] != nil:
		kind, c.app = "app", d.Apps[id]
	case d.Uploads[id] != nil:
		kind, c.upload = "upload", d.Uploads[id]
	default:
		if c.media = d.Files.Find(id, c.Now); c.media == nil {
			return "", unknownObject(id)
		}
		kind = "media"
	}
	foreign := c.account != nil && !c.token.Covers(c.account.ID) || c.app != nil && c.app.ID != c.token.App
	if foreign {
		return "", wire.Refusal(200, "You do not have permission to access this object.").With(1349174)
	}
	return kind, nil
}

// countCall counts a call of a management edge and refuses it beyond the quota of the hour.
func (s *Server) countCall(c *call, name string) error {
	if !managementEdges[name] {
		return nil
	}
	s.Lock()
	defer s.Unlock()
	quota := 200
	if slices.ContainsFunc(s.Data.NumbersOf(c.account), (*state.Number).Registered) {
		quota = 5000
	}
	percent := c.account.Calls.Percent(c.Now, quota)
	regain := 0
	if percent > 100 {
		regain = int(time.Hour-c.Now.Sub(c.account.Calls.Since))/int(time.Minute) + 1
	}
	c.W.Header().Set("x-business-use-case-usage", fmt.Sprintf(
		`{"%s":[{"type":"whatsapp","call_count":%d,"total_cputime":1,"total_time":1,"estimated_time_to_regain_access":%d}]}`,
		c.account.ID, min(percent, 100), regain))
	c.W.Header().Set("x-app-usage", fmt.Sprintf(`{"call_count":%d,"total_cputime":0,"total_time":0}`, min(percent, 100)))
	if percent > 100 && s.Data.Settings.ManagementLimit {
		return wire.Refusal(80008, "There have been too many calls to this WhatsApp Business account. Wait a bit and try again.")
	}
	return nil
}

// refuse answers with an error.
func (s *Server) refuse(c *call, err error) {
	refusal := new(wire.Error)
	if !errors.As(err, &refusal) {
		refusal = wire.Refusal(1, "%s", err.Error())
	}
	s.Counters.Refused.Add(1)
	if refusal.Code == 190 {
		c.W.Header().Set("www-authenticate", `OAuth "Facebook Platform" "invalid_token" "`+refusal.Title+`"`)
	}
	message := fmt.Sprintf("(#%d) %s", refusal.Code, refusal.Title)
	problem := object{"type": "OAuthException", "code": refusal.Code, "fbtrace_id": traceID()}
	switch {
	case refusal.Code == 190 || refusal.Code == 100 && refusal.Subcode == 33 || refusal.Code == 200:
		message = refusal.Details
	case refusal.UserTitle != "": // for the people who use the app
		problem["error_user_title"], problem["error_user_msg"] = refusal.UserTitle, refusal.UserText
		problem["error_data"], problem["is_transient"] = refusal.Details, false
	default:
		problem["error_data"] = object{wire.FieldProduct: wire.Product, "details": refusal.Details}
	}
	if problem["message"] = message; refusal.Subcode != 0 {
		problem["error_subcode"] = refusal.Subcode
	}
	if refusal.HTTP >= http.StatusInternalServerError {
		problem["is_transient"] = true
	}
	wire.Answer(c.W, refusal.HTTP, object{"error": problem})
}

// unknownObject is the error for an id that the caller cannot see.
func unknownObject(id string) error {
	return wire.Refusal(100, "Object with ID '%s' does not exist, cannot be loaded due to missing permissions, "+
		"or does not support this operation.", id).With(33)
}

func traceID() string { return "A" + rand.Text()[:22] }
