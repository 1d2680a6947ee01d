package simulator

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// object is JSON that is built or read by hand.
type object = map[string]any

// call is one request on the network's own paths, with what its path and token name.
type call struct {
	w       http.ResponseWriter
	r       *http.Request
	version string
	token   *token
	now     time.Time
	form    wire.Form

	app      *app
	account  *account
	number   *number
	template *template
	media    *media
	upload   *upload
}

type handler func(s *Simulator, c *call) (any, error)

// locked holds the lock while handle runs.
func locked(handle handler) handler {
	return func(s *Simulator, c *call) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return handle(s, c)
	}
}

// form reads the form of a request before handle runs.
func form(handle handler) handler {
	return func(s *Simulator, c *call) (answer any, err error) {
		if c.form, err = wire.ReadForm(c.w, c.r); err != nil {
			return nil, err
		}
		return handle(s, c)
	}
}

// routes are the network's operations: the verb, the kind of node that the id names, and
// the edge.
var routes = map[string]handler{
	"POST number messages":             form((*Simulator).sendMessage),
	"POST number marketing_messages":   form((*Simulator).sendMarketing),
	"POST number media":                (*Simulator).uploadMedia,
	"GET number":                       locked((*Simulator).readNumber),
	"POST number":                      form((*Simulator).changeNumber),
	"POST number register":             form(locked((*Simulator).register)),
	"POST number deregister":           locked((*Simulator).deregister),
	"POST number request_code":         form(locked((*Simulator).requestCode)),
	"POST number verify_code":          form(locked((*Simulator).verifyCode)),
	"POST number smb_app_data":         form(locked((*Simulator).syncPhoneApp)),
	"GET number username":              locked((*Simulator).readUsername),
	"POST number username":             form(locked((*Simulator).changeUsername)),
	"DELETE number username":           locked((*Simulator).deleteUsername),
	"GET account":                      locked((*Simulator).readAccount),
	"GET account phone_numbers":        locked((*Simulator).listNumbers),
	"GET account message_templates":    locked((*Simulator).listTemplates),
	"POST account message_templates":   form(locked((*Simulator).createTemplate)),
	"DELETE account message_templates": form(locked((*Simulator).deleteTemplates)),
	"GET account subscribed_apps":      locked((*Simulator).listSubscribed),
	"POST account subscribed_apps":     form((*Simulator).subscribe),
	"DELETE account subscribed_apps":   locked((*Simulator).unsubscribe),
	"GET template":                     locked((*Simulator).readTemplate),
	"POST template":                    form(locked((*Simulator).editTemplate)),
	"POST template unpause":            locked((*Simulator).unpauseTemplate),
	"GET media":                        locked((*Simulator).readMedia),
	"DELETE media":                     locked((*Simulator).deleteMedia),
	"POST app uploads":                 form(locked((*Simulator).beginUpload)),
	"GET app subscriptions":            locked((*Simulator).readSubscription),
	"POST app subscriptions":           form((*Simulator).changeSubscription),
	"POST upload":                      (*Simulator).continueUpload,
	"GET upload":                       locked((*Simulator).readUpload),
}

// managed are the edges whose calls are counted by the hour.
var managed = map[string]bool{
	"account": true, "account phone_numbers": true, "account message_templates": true, "account subscribed_apps": true, "number": true,
}

var versionPattern = regexp.MustCompile(`^v[0-9]{1,3}\.[0-9]{1,2}$`)

func (s *Simulator) graph(w http.ResponseWriter, r *http.Request) {
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
	case *reply:
		s.play(c, answer)
	case served:
		answer()
	default:
		wire.Answer(w, http.StatusOK, answer)
	}
}

// served is an answer that is not JSON and writes itself.
type served func()

func (s *Simulator) route(c *call, segments []string) (any, error) {
	switch path := strings.Join(segments, "/"); path {
	case "oauth/access_token":
		return form(locked((*Simulator).exchange))(s, c)
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
	if err := s.metered(c, name); err != nil {
		return nil, err
	}
	handle, found := routes[c.r.Method+" "+name]
	if !found {
		return nil, wire.Refusal(100, "Unsupported %s request. Object with ID '%s' does not support this operation.",
			strings.ToLower(c.r.Method), segments[0]).With(33)
	}
	if edge != fieldMessages { // a send is matched once its recipient is known
		if reply, err := s.scripted(c, edge); reply != nil || err != nil {
			return reply, err
		}
	}
	return handle(s, c)
}

// authenticate finds the token of a call.
func (s *Simulator) authenticate(c *call) error {
	scheme, value, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "OAuth") {
		value = c.r.URL.Query().Get("access_token")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.tokenOf(value, c.now)
	c.token = found
	return err
}

func (s *Simulator) tokenOf(value string, now time.Time) (*token, error) {
	if value == "" {
		return nil, wire.Refusal(190, "An access token is required to request this resource.")
	}
	if id, secret, isApp := strings.Cut(value, "|"); isApp {
		if a := s.world.apps[id]; a != nil && a.Secret == secret {
			return &token{Value: value, App: id}, nil
		}
	}
	found := s.world.tokens[value]
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

// resolve finds what an id names, and refuses what the token may not touch.
func (s *Simulator) resolve(c *call, id string) (kind string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.world
	if id == "app" { // the token's own
		id = c.token.App
	}
	switch {
	case w.numbers[id] != nil:
		kind, c.number = "number", w.numbers[id]
		c.account = c.number.Account
	case w.accounts[id] != nil:
		kind, c.account = "account", w.accounts[id]
	case w.templates[id] != nil:
		kind, c.template = "template", w.templates[id]
		c.account = c.template.account
	case w.apps[id] != nil:
		kind, c.app = "app", w.apps[id]
	case w.uploads[id] != nil:
		kind, c.upload = "upload", w.uploads[id]
	default:
		if c.media = w.media.find(id, c.now); c.media == nil {
			return "", wire.Refusal(100, "Object with ID '%s' does not exist, cannot be loaded due to missing permissions, "+
				"or does not support this operation.", id).With(33)
		}
		kind = "media"
	}
	foreign := c.account != nil && !c.token.covers(c.account.ID) || c.app != nil && c.app.ID != c.token.App
	if foreign {
		return "", wire.Refusal(200, "You do not have permission to access this object.").With(1349174)
	}
	return kind, nil
}

// metered counts calls on management edges and refuses those over the hour's share.
func (s *Simulator) metered(c *call, name string) error {
	if !managed[name] {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share := 200
	for _, n := range s.world.numbers {
		if n.Account == c.account && n.registered() {
			share = 5000
			break
		}
	}
	percent := c.account.calls.percent(c.now, share)
	regain := 0
	if percent > 100 {
		regain = int(time.Hour-c.now.Sub(c.account.calls.since))/int(time.Minute) + 1
	}
	c.w.Header().Set("x-business-use-case-usage", fmt.Sprintf(
		`{"%s":[{"type":"whatsapp","call_count":%d,"total_cputime":1,"total_time":1,"estimated_time_to_regain_access":%d}]}`,
		c.account.ID, min(percent, 100), regain))
	c.w.Header().Set("x-app-usage", fmt.Sprintf(`{"call_count":%d,"total_cputime":0,"total_time":0}`, min(percent, 100)))
	if percent > 100 && s.world.settings.ManagementLimit {
		return wire.Refusal(80008, "There have been too many calls to this WhatsApp Business account. Wait a bit and try again.")
	}
	return nil
}

// refuse answers with the network's error body.
func (s *Simulator) refuse(c *call, err error) {
	refusal := new(wire.Error)
	if !errors.As(err, &refusal) {
		refusal = wire.Refusal(1, "%s", err.Error())
	}
	s.counts.refused.Add(1)
	if refusal.Code == 190 {
		c.w.Header().Set("www-authenticate", `OAuth "Facebook Platform" "invalid_token" "`+refusal.Title+`"`)
	}
	message := fmt.Sprintf("(#%d) %s", refusal.Code, refusal.Title)
	problem := object{"type": "OAuthException", "code": refusal.Code, "fbtrace_id": traceID()}
	switch {
	case refusal.Code == 190 || refusal.Code == 100 && refusal.Subcode == 33 || refusal.Code == 200:
		message = refusal.Details
	case refusal.UserTitle != "": // template and onboarding operations explain themselves to people
		problem["error_user_title"], problem["error_user_msg"] = refusal.UserTitle, refusal.UserText
		problem["error_data"], problem["is_transient"] = refusal.Details, false
	default:
		problem["error_data"] = object{fieldProduct: wire.Product, "details": refusal.Details}
	}
	if problem["message"] = message; refusal.Subcode != 0 {
		problem["error_subcode"] = refusal.Subcode
	}
	if refusal.HTTP >= http.StatusInternalServerError {
		problem["is_transient"] = true
	}
	wire.Answer(c.w, refusal.HTTP, object{"error": problem})
}

func traceID() string { return "A" + rand.Text()[:22] }

// success is what every write but a send answers.
func success() object { return object{"success": true} }
