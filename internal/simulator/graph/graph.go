// Package graph serves the provider's API: the operations on numbers, business accounts,
// templates, media and apps, the exchange of tokens, and the media host.
package graph

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
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
	w       http.ResponseWriter
	r       *http.Request
	version string
	token   *state.Token
	now     time.Time
	form    wire.Form

	app      *state.App
	account  *state.Account
	number   *state.Number
	template *state.Template
	media    *state.File
	upload   *state.Upload
}

// handler returns the body of the answer.
type handler func(s *Server, c *call) (any, error)

// locked holds the lock while handle runs.
func locked(handle handler) handler {
	return func(s *Server, c *call) (any, error) {
		s.Lock()
		defer s.Unlock()
		return handle(s, c)
	}
}

// form reads the form of a request before handle runs.
func form(handle handler) handler {
	return func(s *Server, c *call) (answer any, err error) {
		if c.form, err = wire.ReadForm(c.w, c.r); err != nil {
			return nil, err
		}
		return handle(s, c)
	}
}

// routes holds the operations by method, kind of the object in the path, and edge.
var routes = map[string]handler{
	"POST number messages":             form((*Server).sendMessage),
	"POST number marketing_messages":   form((*Server).sendMarketing),
	"POST number media":                (*Server).uploadMedia,
	"GET number":                       locked((*Server).readNumber),
	"POST number":                      form((*Server).changeNumber),
	"POST number register":             form(locked((*Server).register)),
	"POST number deregister":           locked((*Server).deregister),
	"POST number request_code":         form(locked((*Server).requestCode)),
	"POST number verify_code":          form(locked((*Server).verifyCode)),
	"POST number smb_app_data":         form(locked((*Server).syncPhoneApp)),
	"GET number username":              locked((*Server).readUsername),
	"POST number username":             form(locked((*Server).changeUsername)),
	"DELETE number username":           locked((*Server).deleteUsername),
	"GET account":                      locked((*Server).readAccount),
	"GET account phone_numbers":        locked((*Server).listNumbers),
	"GET account message_templates":    locked((*Server).listTemplates),
	"POST account message_templates":   form(locked((*Server).createTemplate)),
	"DELETE account message_templates": form(locked((*Server).deleteTemplates)),
	"GET account subscribed_apps":      locked((*Server).listSubscribed),
	"POST account subscribed_apps":     form((*Server).subscribe),
	"DELETE account subscribed_apps":   locked((*Server).unsubscribe),
	"GET template":                     locked((*Server).readTemplate),
	"POST template":                    form(locked((*Server).editTemplate)),
	"POST template unpause":            locked((*Server).unpauseTemplate),
	"GET media":                        locked((*Server).readMedia),
	"DELETE media":                     locked((*Server).deleteMedia),
	"POST app uploads":                 form(locked((*Server).beginUpload)),
	"GET app subscriptions":            locked((*Server).readSubscription),
	"POST app subscriptions":           form((*Server).changeSubscription),
	"POST upload":                      (*Server).continueUpload,
	"GET upload":                       locked((*Server).readUpload),
}

// managementEdges holds the operations whose calls are limited by the hour.
var managementEdges = map[string]bool{
	"account": true, "account phone_numbers": true, "account message_templates": true, "account subscribed_apps": true, "number": true,
}

var versionPattern = regexp.MustCompile(`^v[0-9]{1,3}\.[0-9]{1,2}$`)

// ServeHTTP answers a request to the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r, now: s.Now(), version: "v24.0"}
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
	switch answer := answer.(type) {
	case *scriptedAnswer:
		s.writeScripted(c, answer)
	case rawAnswer:
		answer()
	default:
		wire.Answer(w, http.StatusOK, answer)
	}
}

// rawAnswer writes an answer that is not JSON.
type rawAnswer func()

// route finds the handler of a call and runs it.
func (s *Server) route(c *call, segments []string) (any, error) {
	switch path := strings.Join(segments, "/"); path {
	case "oauth/access_token":
		return form(locked((*Server).exchange))(s, c)
	case "debug_token":
		return s.debugToken(c)
	case "dialog/oauth":
		return s.dialog(c)
	case "":
		return nil, wire.Refusal(100, "Unsupported %s request.", strings.ToLower(c.r.Method))
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
	handle, found := routes[c.r.Method+" "+name]
	if !found {
		return nil, wire.Refusal(100, "Unsupported %s request. Object with ID '%s' does not support this operation.",
			strings.ToLower(c.r.Method), segments[0]).With(33)
	}
	if edge != wire.FieldMessages { // a send is matched once its recipient is known
		if answer, err := s.applyScript(c, edge); answer != nil || err != nil {
			return answer, err
		}
	}
	return handle(s, c)
}

// authenticate sets the token of a call.
func (s *Server) authenticate(c *call) (err error) {
	scheme, value, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "OAuth") {
		value = c.r.URL.Query().Get("access_token")
	}
	s.Lock()
	defer s.Unlock()
	c.token, err = s.findToken(value, c.now)
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
		if c.media = d.Files.Find(id, c.now); c.media == nil {
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
	for _, n := range s.Data.Numbers {
		if n.Account == c.account && n.Registered() {
			quota = 5000
			break
		}
	}
	percent := c.account.Calls.Percent(c.now, quota)
	regain := 0
	if percent > 100 {
		regain = int(time.Hour-c.now.Sub(c.account.Calls.Since))/int(time.Minute) + 1
	}
	c.w.Header().Set("x-business-use-case-usage", fmt.Sprintf(
		`{"%s":[{"type":"whatsapp","call_count":%d,"total_cputime":1,"total_time":1,"estimated_time_to_regain_access":%d}]}`,
		c.account.ID, min(percent, 100), regain))
	c.w.Header().Set("x-app-usage", fmt.Sprintf(`{"call_count":%d,"total_cputime":0,"total_time":0}`, min(percent, 100)))
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
		c.w.Header().Set("www-authenticate", `OAuth "Facebook Platform" "invalid_token" "`+refusal.Title+`"`)
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
	wire.Answer(c.w, refusal.HTTP, object{"error": problem})
}

// unknownObject is the error for an id that the caller cannot see.
func unknownObject(id string) error {
	return wire.Refusal(100, "Object with ID '%s' does not exist, cannot be loaded due to missing permissions, "+
		"or does not support this operation.", id).With(33)
}

func traceID() string { return "A" + rand.Text()[:22] }
