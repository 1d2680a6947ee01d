package simulator

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"time"

	"github.com/parley-chat/parley/internal/simulator/courier"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

var defaultNumberFields = []string{
	"id", fieldDisplay, "verified_name", "quality_rating", "code_verification_status", "platform_type", "throughput",
	"webhook_configuration", "last_onboarded_time",
}

func (s *Simulator) numberObject(n *number, a string) object {
	verification, platform := "VERIFIED", "CLOUD_API"
	if !n.Verified {
		verification = "NOT_VERIFIED"
	}
	if !n.registered() && !n.Coexistence {
		platform = "NOT_APPLICABLE"
	}
	hooks := object{}
	if app := s.world.apps[a]; app != nil && app.CallbackURL != "" {
		hooks["application"] = app.CallbackURL
	}
	if o := n.Account.subscribed[a]; o.URL != "" {
		hooks["whatsapp_business_account"] = o.URL
	}
	if o := n.override[a]; o.URL != "" {
		hooks["phone_number"] = o.URL
	}
	return object{
		"id": n.ID, fieldDisplay: n.Display, "verified_name": n.Name, "quality_rating": n.Quality, "status": n.Status,
		"code_verification_status": verification, "platform_type": platform, "throughput": object{"level": n.Throughput},
		"name_status": n.NameStatus, "is_on_biz_app": n.Coexistence, "account_mode": n.Mode, "webhook_configuration": hooks,
		"is_pin_enabled": n.pin != "", "whatsapp_business_manager_messaging_limit": n.Tier, "messaging_limit_tier": n.Tier,
		"is_official_business_account": false, "last_onboarded_time": n.onboarded.UTC().Format("2006-01-02T15:04:05+0000"),
		"health_status": health(n.Account, object{fieldEntity: "PHONE_NUMBER", "id": n.ID}, n.registered()),
	}
}

func (s *Simulator) readNumber(c *call) (any, error) {
	return choose(s.numberObject(c.number, c.token.App), c.r.URL.Query().Get("fields"), defaultNumberFields), nil
}

func (s *Simulator) listNumbers(c *call) (any, error) {
	var listed []object
	for _, n := range s.world.numbersOf(c.account) {
		listed = append(listed, s.numberObject(n, c.token.App))
	}
	return s.page(c, listed, defaultNumberFields)
}

func (s *Simulator) readAccount(c *call) (any, error) {
	registered := slices.ContainsFunc(s.world.numbersOf(c.account), func(n *number) bool { return n.registered() })
	full := object{
		"id": c.account.ID, "name": c.account.Name, "currency": c.account.Currency, "timezone_id": "1",
		"message_template_namespace": "sim_" + c.account.ID,
		"owner_business_info":        object{"id": c.account.Business, "name": c.account.Name}, "account_review_status": statusApproved,
		"health_status": health(c.account, object{fieldEntity: "BUSINESS", "id": c.account.Business}, registered),
	}
	return choose(full, c.r.URL.Query().Get("fields"), []string{"id", "name", "timezone_id", "message_template_namespace", "currency"}), nil
}

// changeNumber sets the PIN, the number's own callback address, or the name to be reviewed.
func (s *Simulator) changeNumber(c *call) (any, error) {
	hooks, hooked := c.form["webhook_configuration"].(object)
	address, _ := hooks["override_callback_uri"].(string)
	secret, _ := hooks["verify_token"].(string)
	if address != "" {
		if err := s.verified(c.r.Context(), address, secret); err != nil {
			return nil, err
		}
	}
	pin := c.form.Text("pin")
	if pin != "" && !sixDigits(pin) {
		return nil, wire.Refusal(100, "Param pin must be 6 digits.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := c.number
	if hooked {
		n.override[c.token.App] = override{URL: address, VerifyToken: secret}
	}
	if pin != "" {
		n.pin, n.wrongPINs = pin, 0
		s.tellAccount(n.Account, "security", object{fieldDisplay: n.Digits, "event": "PIN_CHANGED", "requester": c.token.App})
	}
	if name := c.form.Text("new_display_name"); name != "" {
		n.Name, n.NameStatus = name, "PENDING_REVIEW"
	}
	return success(), nil
}

// verified asks a callback address for the challenge, as the network does before it uses one.
func (s *Simulator) verified(ctx context.Context, address, verifyToken string) error {
	if len(address) > 200 {
		return wire.Refusal(100, "A callback URL has up to 200 characters.")
	}
	if err := courier.Verify(ctx, s.client, address, verifyToken, strconv.FormatInt(s.counts.accepted.Load()+1158201444, 10)); err != nil {
		return wire.Refusal(100, "Callback verification failed: %s", err.Error()).With(2201)
	}
	return nil
}

func sixDigits(pin string) bool {
	digits := 0
	for _, c := range pin {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	return digits == 6 && len(pin) == 6
}

const (
	registerLimit  = 10
	registerPeriod = 72 * time.Hour
	pinGuesses     = 5
	pinPause       = time.Hour
)

// counted refuses the eleventh register or deregister call in 72 hours.
func (n *number) counted(now time.Time) error {
	n.registers = slices.DeleteFunc(n.registers, func(at time.Time) bool { return now.Sub(at) >= registerPeriod })
	if len(n.registers) >= registerLimit {
		return wire.Refusal(133016, "There were too many registration or deregistration attempts for this phone number in the last 72 hours.")
	}
	n.registers = append(n.registers, now)
	return nil
}

func (s *Simulator) register(c *call) (any, error) {
	pin := c.form.Text("pin")
	if c.form.Text(fieldProduct) != wire.Product {
		return nil, wire.Refusal(100, "The parameter messaging_product is required.")
	}
	if !sixDigits(pin) {
		return nil, wire.Refusal(100, "Param pin must be 6 digits.")
	}
	n := c.number
	if code, err := strconv.Atoi(pin); err == nil && code >= 133000 && code <= 133016 && slices.Contains(wire.Known(), code) {
		return nil, wire.Refusal(code, "forced by the PIN")
	}
	if err := n.counted(c.now); err != nil {
		return nil, err
	}
	switch {
	case !n.Verified:
		return nil, wire.Refusal(133006, "The phone number must be verified before it is registered.")
	case c.now.Before(n.pinBlocked):
		return nil, wire.Refusal(133008, "Too many PIN guesses. Try again in %d seconds.", int(n.pinBlocked.Sub(c.now).Seconds()))
	case n.pin != "" && n.pin != pin:
		if n.wrongPINs++; n.wrongPINs >= pinGuesses {
			n.wrongPINs, n.pinBlocked = 0, c.now.Add(pinPause)
		}
		return nil, wire.Refusal(133005, "The two-step verification PIN is not the one of this phone number.")
	}
	n.pin, n.wrongPINs, n.Status, n.onboarded = pin, 0, statusConnected, c.now
	s.live.publish("state", struct{}{})
	return success(), nil
}

func (s *Simulator) deregister(c *call) (any, error) {
	n := c.number
	if n.Coexistence {
		return nil, wire.Refusal(100, "The phone number is in use by the WhatsApp Business app and cannot be deregistered by API.")
	}
	if err := n.counted(c.now); err != nil {
		return nil, err
	}
	if !n.registered() {
		return nil, wire.Refusal(133010, "The phone number is not registered.")
	}
	n.Status = "DISCONNECTED"
	s.live.publish("state", struct{}{})
	return success(), nil
}

// VerificationCode is the code that every SMS of this network carries.
const VerificationCode = "123456"

func (s *Simulator) requestCode(c *call) (any, error) {
	if method := c.form.Text("code_method"); method != "SMS" && method != "VOICE" || c.form.Text("language") == "" {
		return nil, wire.Refusal(100, "Param code_method must be one of {SMS, VOICE}, and language is required.")
	}
	if c.number.Verified {
		return nil, wire.Refusal(136024, "The phone number is already verified.")
	}
	c.number.asked = true
	return success(), nil
}

func (s *Simulator) verifyCode(c *call) (any, error) {
	if !c.number.asked || c.form.Text("code") != VerificationCode {
		return nil, wire.Refusal(136025, "The verification code is not the one that was sent.")
	}
	c.number.Verified, c.number.asked = true, false
	if c.number.Status == "UNVERIFIED" {
		c.number.Status = "PENDING"
	}
	return success(), nil
}

// syncPhoneApp starts one of the two synchronizations of a coexistence number.
func (s *Simulator) syncPhoneApp(c *call) (any, error) {
	kind := c.form.Text("sync_type")
	if kind != "smb_app_state_sync" && kind != "history" {
		return nil, wire.Refusal(100, "Param sync_type must be one of {smb_app_state_sync, history}.")
	}
	n := c.number
	switch {
	case !n.Coexistence:
		return nil, wire.Refusal(100, "The phone number is not in use by the WhatsApp Business app.")
	case n.synced[kind]:
		return nil, wire.Refusal(2593107, "The synchronization was already requested.")
	case c.now.Sub(n.onboarded) > 24*time.Hour:
		return nil, wire.Refusal(2593108, "The synchronization must be requested within 24 hours of onboarding.")
	}
	n.synced[kind] = true
	s.tell(event{account: n.Account, number: n, field: kind, at: c.now, value: s.notice(n, kind, c.now)})
	return object{fieldProduct: wire.Product, "request_id": rand.Text()}, nil
}

func (s *Simulator) readUsername(c *call) (any, error) {
	if c.number.Username == "" {
		return object{}, nil
	}
	return object{"username": c.number.Username, "status": "approved"}, nil
}

func (s *Simulator) changeUsername(c *call) (any, error) {
	name := c.form.Text("username")
	if len(name) < 3 || len(name) > 35 {
		return nil, wire.Refusal(147001, "A username has 3 to 35 characters.")
	}
	c.number.Username = name
	s.tellAccount(c.account, "business_username_update", object{fieldDisplay: c.number.Digits, "username": name, "status": "approved"})
	return object{"status": "approved"}, nil
}

func (s *Simulator) deleteUsername(c *call) (any, error) {
	c.number.Username = ""
	s.tellAccount(c.account, "business_username_update", object{fieldDisplay: c.number.Digits, "status": "deleted"})
	return success(), nil
}
