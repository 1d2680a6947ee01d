package state

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Metadata names the number in a callback.
type Metadata struct {
	Display       string `json:"display_phone_number"`
	PhoneNumberID string `json:"phone_number_id"`
}

// Number is a phone number of a business.
type Number struct {
	ID          string
	Account     *Account
	Display     string // as people write it
	Digits      string
	Name        string
	Status      string
	Verified    bool
	Quality     string
	Throughput  string
	NameStatus  string
	Tier        string // of the messaging limit
	Mode        string
	Coexistence bool // also in use by the phone app
	Username    string

	PIN             string
	WrongPINs       int
	PINBlockedUntil time.Time
	Registrations   []time.Time     // and deregistrations, of the last 72 hours
	CodeRequested   bool            // a verification code was requested
	Synced          map[string]bool // by sync_type
	Onboarded       time.Time
	Override        map[string]Override // by app
	Bucket          bucket              // of the throughput limit
}

// AddNumber stores a number and fills its empty fields.
func (d *Data) AddNumber(added *Number) error {
	if added.ID == "" {
		added.ID = d.NextID(numberSeries)
	}
	if added.Display == "" {
		added.Display = fmt.Sprintf("+1 555-019-%04d", 9000+d.lastID%1000)
	}
	digits, ok := wire.Digits(added.Display)
	if !ok {
		return wire.Refusal(100, "%q is not a phone number", added.Display)
	}
	added.Digits = digits
	setDefaults(map[*string]string{
		&added.Status: wire.StatusConnected, &added.Quality: "GREEN", &added.Throughput: "STANDARD", &added.NameStatus: wire.StatusApproved,
		&added.Tier: "TIER_250", &added.Mode: "LIVE", &added.Name: added.Account.Name,
	})
	added.Synced, added.Override = map[string]bool{}, map[string]Override{}
	d.Numbers[added.ID] = added
	return nil
}

// PerSecond returns how many messages a number may send and receive in a second.
func (n *Number) PerSecond() float64 {
	switch {
	case n.Coexistence:
		return 20
	case n.Throughput == "HIGH":
		return 1000
	default:
		return 80
	}
}

// DescribeNumber returns a number with all fields of the API, as an app sees it.
func (s *Simulation) DescribeNumber(n *Number, appID string) map[string]any {
	verification, platform := "VERIFIED", "CLOUD_API"
	if !n.Verified {
		verification = "NOT_VERIFIED"
	}
	if !n.Registered() && !n.Coexistence {
		platform = "NOT_APPLICABLE"
	}
	hooks := object{}
	if app := s.Data.Apps[appID]; app != nil && app.CallbackURL != "" {
		hooks["application"] = app.CallbackURL
	}
	if o := n.Account.Subscribed[appID]; o.URL != "" {
		hooks["whatsapp_business_account"] = o.URL
	}
	if o := n.Override[appID]; o.URL != "" {
		hooks["phone_number"] = o.URL
	}
	return object{
		"id": n.ID, wire.FieldDisplay: n.Display, "verified_name": n.Name, "quality_rating": n.Quality, "status": n.Status,
		"code_verification_status": verification, "platform_type": platform, "throughput": object{"level": n.Throughput},
		"name_status": n.NameStatus, "is_on_biz_app": n.Coexistence, "account_mode": n.Mode, "webhook_configuration": hooks,
		"is_pin_enabled": n.PIN != "", "whatsapp_business_manager_messaging_limit": n.Tier, "messaging_limit_tier": n.Tier,
		"is_official_business_account": false, "last_onboarded_time": n.Onboarded.UTC().Format("2006-01-02T15:04:05+0000"),
		"health_status": Health(n.Account, object{wire.FieldEntity: "PHONE_NUMBER", "id": n.ID}, n.Registered()),
	}
}

// Health returns the health_status of an entity of an account: whether it can send.
func Health(owner *Account, entity object, ready bool) map[string]any {
	overall := "AVAILABLE"
	switch {
	case owner.Disabled || !ready:
		overall = "BLOCKED"
	case len(owner.Restrictions) > 0:
		overall = "LIMITED"
	}
	entity["can_send_message"] = "AVAILABLE"
	if !ready {
		entity["can_send_message"] = "BLOCKED"
		entity["errors"] = []object{{
			"error_code": 141002, "error_description": "The entity is not ready to send.", "possible_solution": "Finish its registration or review.",
		}}
	}
	account := object{wire.FieldEntity: "WABA", "id": owner.ID, "can_send_message": "AVAILABLE"}
	if owner.Disabled {
		account["can_send_message"] = "BLOCKED"
		account["errors"] = []object{{
			"error_code": 141014, "error_description": "The account is banned.", "possible_solution": "Appeal against the decision.",
		}}
	}
	return object{"can_send_message": overall, "entities": []object{entity, account}}
}

// Metadata returns the metadata of a callback about this number.
func (n *Number) Metadata() Metadata { return Metadata{Display: n.Digits, PhoneNumberID: n.ID} }

// Registered tells whether the number is registered for the API.
func (n *Number) Registered() bool {
	return n.Status != "PENDING" && n.Status != "DISCONNECTED" && n.Status != "UNVERIFIED"
}

// NumbersOf lists the numbers of an account, oldest first.
func (d *Data) NumbersOf(owner *Account) []*Number {
	var owned []*Number
	for _, id := range slices.Sorted(maps.Keys(d.Numbers)) {
		if n := d.Numbers[id]; n.Account == owner {
			owned = append(owned, n)
		}
	}
	return owned
}
