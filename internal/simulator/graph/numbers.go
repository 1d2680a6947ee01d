package graph

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

var defaultAccountFields = []string{"id", "name", "timezone_id", "message_template_namespace", "currency"}

var defaultNumberFields = []string{
	"id", wire.FieldDisplay, "verified_name", "quality_rating", "code_verification_status", "platform_type", "throughput",
	"webhook_configuration", "last_onboarded_time",
}

func (s *Server) readNumber(c *call) (any, error) {
	return selectFields(s.DescribeNumber(c.number, c.token.App), c.R.URL.Query().Get("fields"), defaultNumberFields), nil
}

func (s *Server) listNumbers(c *call) (any, error) {
	var listed []object
	for _, n := range s.Data.NumbersOf(c.account) {
		listed = append(listed, s.DescribeNumber(n, c.token.App))
	}
	return s.paginate(c, listed, defaultNumberFields)
}

func (s *Server) readAccount(c *call) (any, error) {
	registered := slices.ContainsFunc(s.Data.NumbersOf(c.account), (*state.Number).Registered)
	full := object{
		"id": c.account.ID, "name": c.account.Name, "currency": c.account.Currency, "timezone_id": "1",
		"message_template_namespace": "sim_" + c.account.ID,
		"owner_business_info":        object{"id": c.account.Business, "name": c.account.Name}, "account_review_status": wire.StatusApproved,
		"health_status": state.Health(c.account, object{wire.FieldEntity: "BUSINESS", "id": c.account.Business}, registered),
	}
	return selectFields(full, c.R.URL.Query().Get("fields"), defaultAccountFields), nil
}

// changeNumber sets the PIN, the callback URL of the number, or the name to be reviewed.
func (s *Server) changeNumber(c *call) (any, error) {
	hooks, hooked := c.Form["webhook_configuration"].(object)
	address, _ := hooks["override_callback_uri"].(string)
	secret, _ := hooks["verify_token"].(string)
	if address != "" {
		if err := s.VerifyCallbackURL(c.R.Context(), address, secret); err != nil {
			return nil, err
		}
	}
	pin := c.Form.Text("pin")
	if pin != "" && !isPIN(pin) {
		return nil, wire.Refusal(100, "Param pin must be 6 digits.")
	}
	s.Lock()
	defer s.Unlock()
	n := c.number
	if hooked {
		n.Override[c.token.App] = state.Override{URL: address, VerifyToken: secret}
	}
	if pin != "" {
		n.PIN, n.WrongPINs = pin, 0
		s.NotifyAccount(n.Account, "security", object{wire.FieldDisplay: n.Digits, "event": "PIN_CHANGED", "requester": c.token.App})
	}
	if name := c.Form.Text("new_display_name"); name != "" {
		n.Name, n.NameStatus = name, "PENDING_REVIEW"
	}
	return wire.Success(), nil
}

func isPIN(pin string) bool { return len(pin) == 6 && strings.Trim(pin, "0123456789") == "" }

const (
	registerLimit  = 10
	registerPeriod = 72 * time.Hour
	pinGuesses     = 5
	pinPause       = time.Hour
)

// countRegistration refuses the eleventh register or deregister call in 72 hours.
func countRegistration(n *state.Number, now time.Time) error {
	n.Registrations = slices.DeleteFunc(n.Registrations, func(at time.Time) bool { return now.Sub(at) >= registerPeriod })
	if len(n.Registrations) >= registerLimit {
		return wire.Refusal(133016, "There were too many registration or deregistration attempts for this phone number in the last 72 hours.")
	}
	n.Registrations = append(n.Registrations, now)
	return nil
}

func (s *Server) register(c *call) (any, error) {
	pin := c.Form.Text("pin")
	if c.Form.Text(wire.FieldProduct) != wire.Product {
		return nil, wire.Refusal(100, "The parameter messaging_product is required.")
	}
	if !isPIN(pin) {
		return nil, wire.Refusal(100, "Param pin must be 6 digits.")
	}
	n := c.number
	if code, err := strconv.Atoi(pin); err == nil && code >= 133000 && code <= 133016 && slices.Contains(wire.Known(), code) {
		return nil, wire.Refusal(code, "forced by the PIN")
	}
	if err := countRegistration(n, c.Now); err != nil {
		return nil, err
	}
	switch {
	case !n.Verified:
		return nil, wire.Refusal(133006, "The phone number must be verified before it is registered.")
	case c.Now.Before(n.PINBlockedUntil):
		return nil, wire.Refusal(133008, "Too many PIN guesses. Try again in %d seconds.", int(n.PINBlockedUntil.Sub(c.Now).Seconds()))
	case n.PIN != "" && n.PIN != pin:
		if n.WrongPINs++; n.WrongPINs >= pinGuesses {
			n.WrongPINs, n.PINBlockedUntil = 0, c.Now.Add(pinPause)
		}
		return nil, wire.Refusal(133005, "The two-step verification PIN is not the one of this phone number.")
	}
	n.PIN, n.WrongPINs, n.Status, n.Onboarded = pin, 0, wire.StatusConnected, c.Now
	s.Feed.PublishState()
	return wire.Success(), nil
}

func (s *Server) deregister(c *call) (any, error) {
	n := c.number
	if n.Coexistence {
		return nil, wire.Refusal(100, "The phone number is in use by the WhatsApp Business app and cannot be deregistered by API.")
	}
	if err := countRegistration(n, c.Now); err != nil {
		return nil, err
	}
	if !n.Registered() {
		return nil, wire.Refusal(133010, "The phone number is not registered.")
	}
	n.Status = "DISCONNECTED"
	s.Feed.PublishState()
	return wire.Success(), nil
}

// verificationCode is sent by every SMS and call of the simulator.
const verificationCode = "123456"

func (s *Server) requestCode(c *call) (any, error) {
	if method := c.Form.Text("code_method"); method != "SMS" && method != "VOICE" || c.Form.Text("language") == "" {
		return nil, wire.Refusal(100, "Param code_method must be one of {SMS, VOICE}, and language is required.")
	}
	if c.number.Verified {
		return nil, wire.Refusal(136024, "The phone number is already verified.")
	}
	c.number.CodeRequested = true
	return wire.Success(), nil
}

func (s *Server) verifyCode(c *call) (any, error) {
	if !c.number.CodeRequested || c.Form.Text("code") != verificationCode {
		return nil, wire.Refusal(136025, "The verification code is not the one that was sent.")
	}
	c.number.Verified, c.number.CodeRequested = true, false
	if c.number.Status == "UNVERIFIED" {
		c.number.Status = "PENDING"
	}
	return wire.Success(), nil
}

// syncPhoneApp starts the synchronization of contacts or of history of a coexistence number.
func (s *Server) syncPhoneApp(c *call) (any, error) {
	kind := c.Form.Text("sync_type")
	if kind != "smb_app_state_sync" && kind != "history" {
		return nil, wire.Refusal(100, "Param sync_type must be one of {smb_app_state_sync, history}.")
	}
	n := c.number
	switch {
	case !n.Coexistence:
		return nil, wire.Refusal(100, "The phone number is not in use by the WhatsApp Business app.")
	case n.Synced[kind]:
		return nil, wire.Refusal(2593107, "The synchronization was already requested.")
	case c.Now.Sub(n.Onboarded) > 24*time.Hour:
		return nil, wire.Refusal(2593108, "The synchronization must be requested within 24 hours of onboarding.")
	}
	n.Synced[kind] = true
	s.Notify(state.Notification{Account: n.Account, Number: n, Field: kind, Value: s.SampleValue(n, kind, c.Now)})
	return object{wire.FieldProduct: wire.Product, "request_id": rand.Text()}, nil
}

func (s *Server) readUsername(c *call) (any, error) {
	if c.number.Username == "" {
		return object{}, nil
	}
	return object{"username": c.number.Username, "status": "approved"}, nil
}

func (s *Server) changeUsername(c *call) (any, error) {
	name := c.Form.Text("username")
	if len(name) < 3 || len(name) > 35 {
		return nil, wire.Refusal(147001, "A username has 3 to 35 characters.")
	}
	c.number.Username = name
	s.NotifyAccount(c.account, "business_username_update", object{wire.FieldDisplay: c.number.Digits, "username": name, "status": "approved"})
	return object{"status": "approved"}, nil
}

func (s *Server) deleteUsername(c *call) (any, error) {
	c.number.Username = ""
	s.NotifyAccount(c.account, "business_username_update", object{wire.FieldDisplay: c.number.Digits, "status": "deleted"})
	return wire.Success(), nil
}
