// Package control serves the API under /sim, by which tests and developers control the
// simulated network: users write, templates are reviewed, sends fail, time passes.
package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// object is a JSON object that is built or read by hand.
type object = map[string]any

// Server answers requests under /sim.
type Server struct{ *state.Simulation }

// request is one request under /sim.
type request struct {
	wire.Request

	id string // in the path of a template
}

// into decodes the form into target, and refuses fields that target does not have. Fields that the form does
// not name keep their value.
func (c *request) into(target any) error { return decodeStrict(c.Form, target) }

func decodeStrict(form wire.Form, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(wire.Encode(form)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(target)
	if err == nil {
		return nil
	}
	if field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return wire.Refusal(100, "there is no field %s; docs/guides/simulator.md lists the fields", field)
	}
	return wire.Refusal(100, "%s", err.Error())
}

// handler returns the body of the answer.
type handler func(s *Server, c *request) (any, error)

// decoded reads the form into the argument of handle, and holds the lock while it runs.
func decoded[In any](handle func(s *Server, c *request, in In) (any, error)) handler {
	return wire.WithForm(wire.Locked(func(s *Server, c *request) (any, error) {
		var in In
		if err := c.into(&in); err != nil {
			return nil, err
		}
		return handle(s, c, in)
	}))
}

// decodedMessage is decoded for a body that also has the content of a message, in the field that its type names.
func decodedMessage[In any](handle func(s *Server, c *request, in In) (any, error)) handler {
	return wire.WithForm(wire.Locked(func(s *Server, c *request) (any, error) {
		if c.Form.Text("type") == "" {
			c.Form = maps.Clone(c.Form)
			c.Form["type"] = "text"
		}
		rest := maps.Clone(c.Form)
		delete(rest, c.Form.Text("type"))
		var in, checked In
		if err := decodeStrict(rest, &checked); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(wire.Encode(c.Form), &in); err != nil {
			return nil, wire.Refusal(100, "%s", err.Error())
		}
		return handle(s, c, in)
	}))
}

// routes holds the operations by method and path under /sim; `*` stands for an id.
var routes = map[string]handler{
	"POST inbound":              decodedMessage((*Server).receiveMessage),
	"GET sent":                  wire.Locked((*Server).listSent),
	"GET receipts":              wire.Locked((*Server).listReceipts),
	"POST script":               wire.WithForm(wire.Locked((*Server).addScript)),
	"GET script":                wire.Locked((*Server).listScripts),
	"DELETE script":             wire.Locked((*Server).clearScripts),
	"GET settings":              wire.Locked((*Server).readSettings),
	"POST settings":             wire.WithForm(wire.Locked((*Server).changeSettings)),
	"POST templates/*/review":   decoded((*Server).reviewTemplate),
	"POST templates/*/quality":  decoded((*Server).changeTemplateQuality),
	"POST templates/*/category": decoded((*Server).changeTemplateCategory),
	"POST preferences":          decoded((*Server).changePreferences),
	"POST system":               decoded((*Server).changeIdentity),
	"POST echo":                 decodedMessage((*Server).sendEcho),
	"POST account-update":       wire.WithForm(wire.Locked((*Server).updateAccount)),
	"POST notify":               decoded((*Server).notifyField),
	"POST reset":                wire.WithForm((*Server).reset),
	"POST clock":                wire.WithForm((*Server).advanceClock),
	"GET state":                 wire.Locked((*Server).readState),
	"GET thread":                wire.Locked((*Server).readThread),
	"GET stats":                 wire.Locked((*Server).readStats),
	"GET callbacks":             wire.Locked((*Server).listCallbacks),
	"POST apps":                 wire.WithForm((*Server).saveApp),
	"POST accounts":             wire.WithForm(wire.Locked((*Server).saveAccount)),
	"POST numbers":              decoded((*Server).saveNumber),
	"POST users":                wire.WithForm(wire.Locked((*Server).saveUser)),
	"POST tokens":               wire.WithForm(wire.Locked((*Server).saveToken)),
	"POST signup":               decoded((*Server).signUp),
	"POST media":                (*Server).uploadFile,
}

// ServeHTTP answers a request under /sim.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &request{Request: wire.Request{W: w, R: r, Now: s.Now()}}
	path := strings.Trim(strings.TrimPrefix(r.URL.Path, "/sim/"), "/")
	if segments := strings.Split(path, "/"); len(segments) == 3 {
		c.id, segments[1] = segments[1], "*"
		path = strings.Join(segments, "/")
	}
	if id, isFile := strings.CutPrefix(path, "media/"); isFile && r.Method == http.MethodGet {
		s.serveFile(w, r, id)
		return
	}
	handle, found := routes[r.Method+" "+path]
	if !found {
		wire.Answer(w, http.StatusNotFound, object{"error": object{"message": "no such control: " + r.Method + " /sim/" + path}})
		return
	}
	body, err := handle(s, c)
	if refusal := new(wire.Error); errors.As(err, &refusal) {
		wire.Answer(w, http.StatusBadRequest, object{"error": object{"message": refusal.Details, "code": refusal.Code}})
		return
	}
	if err != nil {
		wire.Answer(w, http.StatusBadRequest, object{"error": object{"message": err.Error()}})
		return
	}
	wire.Answer(w, http.StatusOK, body)
}

// setIfNotEmpty sets a field, or leaves it out when the value is empty.
func setIfNotEmpty(of object, name, value string) {
	if value != "" {
		of[name] = value
	}
}

// findNumber returns the number with an id, the fixture's without an id.
func (s *Server) findNumber(id string) (*state.Number, error) {
	if id == "" {
		id = state.DefaultPhoneNumberID
	}
	if n := s.Data.Numbers[id]; n != nil {
		return n, nil
	}
	return nil, wire.Refusal(100, "there is no phone number %s", id)
}

// findUser returns the user with a phone number or a user id.
func (s *Server) findUser(n *state.Number, phone, userID string) (*state.User, error) {
	if phone != "" {
		digits, ok := wire.UserDigits(phone)
		if !ok {
			return nil, wire.Refusal(100, "%q is not a phone number", phone)
		}
		return s.Data.Users.ByPhone(digits), nil
	}
	if user := s.Data.Users.ByUserID(userID, n.Account); user != nil {
		return user, nil
	}
	return nil, wire.Refusal(100, "from or user_id must name a user")
}

// chat names a number and a user in a body. From is a phone number; UserID is used without it.
type chat struct {
	PhoneNumberID string `json:"phone_number_id"`
	From          string `json:"from"`
	UserID        string `json:"user_id"`
}

// numberAndUser returns the number and the user that a body names.
func (s *Server) numberAndUser(in chat) (*state.Number, *state.User, error) {
	n, err := s.findNumber(in.PhoneNumberID)
	if err != nil {
		return nil, nil, err
	}
	user, err := s.findUser(n, in.From, in.UserID)
	return n, user, err
}

// findAccount returns the business account with an id, the fixture's without an id.
func (s *Server) findAccount(id string) (*state.Account, error) {
	if id == "" {
		id = state.DefaultAccountID
	}
	if owner := s.Data.Accounts[id]; owner != nil {
		return owner, nil
	}
	return nil, wire.Refusal(100, "there is no business account %s; there are %v", id, slices.Sorted(maps.Keys(s.Data.Accounts)))
}
