package cloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/provider"
)

// change is one field of a callback and where it belongs.
type change struct {
	client *Client
	entry  text
	at     time.Time
	field  string
	raw    json.RawMessage // the value
	value  members
	people []person
	where  provider.Notification // what all its notifications have in common
	found  []provider.Notification
}

// Parse takes a callback apart. Whatever arrives ends in at least one notification, if only
// an Unknown: nothing is dropped without a trace.
func (c *Client) Parse(body []byte) ([]provider.Notification, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) || !json.Valid(body) {
		return nil, errors.New("the callback is not a JSON object")
	}
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	var all []provider.Notification
	for _, rawEntry := range elements(fieldsOf(body)["entry"]) {
		entry := fieldsOf(rawEntry)
		id, at := read[text](entry["id"]), read[whole](entry["time"]).at()
		changes := elements(entry["changes"])
		for _, rawChange := range changes {
			given := fieldsOf(rawChange)
			one := &change{client: c, entry: id, at: at, field: string(read[text](given["field"])), raw: given["value"]}
			all = append(all, one.parse()...)
		}
		if len(changes) == 0 {
			all = append(all, provider.Notification{
				BusinessAccountID: string(id), At: at, Raw: rawEntry, Item: provider.Unknown{Reason: "an entry without changes"},
			})
		}
	}
	if len(all) == 0 {
		all = append(all, provider.Notification{Raw: body, Item: provider.Unknown{Reason: "a callback without entries"}})
	}
	return all, nil
}

// fields says who reads which field; each finds what it understands.
var fields = map[string]func(*change){
	"messages":                           (*change).messages,
	"smb_message_echoes":                 (*change).messages,
	"history":                            (*change).messages,
	"smb_app_state_sync":                 (*change).messages,
	"user_preferences":                   (*change).messages,
	"message_template_status_update":     (*change).templateStatus,
	"message_template_quality_update":    (*change).templateQuality,
	"template_category_update":           (*change).templateCategory,
	"message_template_components_update": (*change).templateComponents,
	"account_update":                     (*change).accountUpdate,
	"account_alerts":                     (*change).accountAlert,
	"account_review_update":              (*change).accountReview,
	"business_capability_update":         (*change).capability,
	"phone_number_quality_update":        (*change).numberQuality,
	"phone_number_name_update":           (*change).numberName,
	"security":                           (*change).numberSecurity,
	"business_username_update":           (*change).numberUsername,
}

func (c *change) parse() []provider.Notification {
	c.value = fieldsOf(c.raw)
	c.where = c.address()
	reader := fields[c.field]
	switch {
	case c.value == nil:
		c.unknown("a change without a value")
	case reader != nil:
		reader(c)
	case c.field == "":
		c.unknown("a change without a field")
	default:
		c.unknown("the field " + line(c.field))
	}
	if len(c.found) == 0 {
		c.unknown("a value without content")
	}
	return c.found
}

// about is a notification of this change.
func (c *change) about(item provider.Item, raw json.RawMessage) provider.Notification {
	found := c.where
	found.Item, found.Raw = item, raw
	return found
}

// address says where the change belongs.
func (c *change) address() provider.Notification {
	metadata := read[struct {
		Display text `json:"display_phone_number"`
		Number  text `json:"phone_number_id"`
	}](c.value["metadata"])
	display := metadata.Display
	for _, name := range []string{"display_phone_number", "phone_number"} {
		if display == "" {
			display = read[text](c.value[name])
		}
	}
	return provider.Notification{
		BusinessAccountID: string(c.entry), NumberID: string(metadata.Number), DisplayNumber: phone(display),
		At: c.at, Field: c.field,
	}
}

// whole adds the value as the one item.
func (c *change) whole(item provider.Item) { c.found = append(c.found, c.about(item, c.raw)) }

func (c *change) unknown(why string) { c.whole(provider.Unknown{Reason: why}) }

// one adds an item of a list.
func (c *change) one(list string, item provider.Item, raw, contact json.RawMessage) {
	found := c.about(item, raw).In(list)
	found.Contact = contact
	c.found = append(c.found, found)
}

// person is an entry of `contacts`.
type person struct {
	raw  json.RawMessage
	user provider.User
}

func persons(raw json.RawMessage) []person {
	var all []person
	for _, one := range elements(raw) {
		given := read[struct {
			WaID    text `json:"wa_id"`
			UserID  text `json:"user_id"`
			Parent  text `json:"parent_user_id"`
			Profile struct {
				Name     text `json:"name"`
				Username text `json:"username"`
			} `json:"profile"`
			Username text `json:"username"`
		}](one)
		who := user(given.WaID, given.UserID, given.Parent)
		who.Name = string(given.Profile.Name)
		if who.Username = username(given.Profile.Username); who.Username == "" {
			who.Username = username(given.Username)
		}
		all = append(all, person{raw: one, user: who})
	}
	return all
}

func username(given text) string { return strings.TrimPrefix(string(given), "@") }

// user puts ids where they belong: some integrations saw a BSUID in the place of a phone.
func user(phoneOrID, id, parent text) provider.User {
	who := provider.User{Phone: phone(phoneOrID), ID: string(id), ParentID: string(parent)}
	if who.Phone == "" && bsuid.MatchString(string(phoneOrID)) && who.ID == "" {
		who.ID = string(phoneOrID)
	}
	if strings.Contains(who.ID, ".ENT.") && who.ParentID == "" {
		who.ID, who.ParentID = "", who.ID
	}
	return who
}

// profile completes a user by what came beside the item, and answers the bytes of that.
// A single profile is that of a single item, unless each names somebody else.
func (c *change) profile(who provider.User, single bool) (provider.User, json.RawMessage) {
	i := slices.IndexFunc(c.people, func(p person) bool {
		same := func(a, b string) bool { return a != "" && a == b }
		return same(p.user.ID, who.ID) || same(p.user.Phone, who.Phone) || same(p.user.ParentID, who.ParentID)
	})
	if i < 0 && single && len(c.people) == 1 {
		differ := func(a, b string) bool { return a != "" && b != "" } // equal ones were found above
		if only := c.people[0].user; !differ(only.ID, who.ID) && !differ(only.Phone, who.Phone) {
			i = 0
		}
	}
	if i < 0 {
		return who, nil
	}
	known := c.people[i].user
	for field, value := range map[*string]string{
		&who.Phone: known.Phone, &who.ID: known.ID, &who.ParentID: known.ParentID, &who.Username: known.Username, &who.Name: known.Name,
	} {
		if *field == "" {
			*field = value
		}
	}
	return who, c.people[i].raw
}

// errors reads a list of the network's errors.
func (c *change) errors(raw json.RawMessage) []*provider.Error {
	var all []*provider.Error
	for _, one := range elements(raw) {
		all = append(all, c.client.failure(read[refusal](one), 0, request{}))
	}
	return all
}
