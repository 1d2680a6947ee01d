package cloud

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/provider"
)

// change is one change of a callback while it is read.
type change struct {
	client *Client
	entry  text
	at     time.Time
	field  string
	raw    json.RawMessage // the value
	value  members
	people []person
	where  provider.Notification // the address, which all its notifications share
	found  []provider.Notification
}

// Parse makes notifications of a body. Every body gives at least one notification, if only an
// Unknown: nothing is dropped.
func (c *Client) Parse(body []byte) ([]provider.Notification, error) {
	body, err := object(body)
	if err != nil {
		return nil, err
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

// fieldReader reads the changes of one field.
type fieldReader struct {
	read func(*change)
	// lists says that the items are the elements of lists; otherwise the value is the item.
	lists bool
}

// fields are the kinds of change that are understood.
var fields = map[string]fieldReader{
	"messages":                           {(*change).messages, true},
	"smb_message_echoes":                 {(*change).messages, true},
	"history":                            {(*change).messages, true},
	"smb_app_state_sync":                 {(*change).messages, true},
	"user_preferences":                   {(*change).messages, true},
	"message_template_status_update":     {(*change).templateStatus, false},
	"message_template_quality_update":    {(*change).templateQuality, false},
	"template_category_update":           {(*change).templateCategory, false},
	"message_template_components_update": {(*change).templateComponents, false},
	"account_update":                     {(*change).accountUpdate, false},
	"account_alerts":                     {(*change).accountAlert, false},
	"account_review_update":              {(*change).accountReview, false},
	"business_capability_update":         {(*change).capability, false},
	"phone_number_quality_update":        {(*change).numberQuality, false},
	"phone_number_name_update":           {(*change).numberName, false},
	"security":                           {(*change).numberSecurity, false},
	"business_username_update":           {(*change).numberUsername, false},
}

func (c *change) parse() []provider.Notification {
	c.value = fieldsOf(c.raw)
	c.where = c.address()
	reader, known := fields[c.field]
	switch {
	case c.value == nil:
		c.unknown("a change without a value")
	case known:
		reader.read(c)
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

// about makes a notification of this change.
func (c *change) about(item provider.Item, raw json.RawMessage) provider.Notification {
	found := c.where
	found.Item, found.Raw = item, raw
	return found
}

// address says whom the change concerns. An account_update about a partner has the partner as
// its entry, and names the account inside.
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
	where := provider.Notification{
		BusinessAccountID: string(c.entry), NumberID: string(metadata.Number), DisplayNumber: phone(display),
		At: c.at, Field: c.field,
	}
	account := read[struct {
		ID text `json:"waba_id"`
	}](c.value["waba_info"]).ID
	if c.field == "account_update" && account != "" && account != c.entry {
		where.BusinessAccountID, where.Portfolio = string(account), string(c.entry)
	}
	return where
}

// whole adds the value as the only item.
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

// profile completes a user by the profile that came beside the item, and returns the profile's
// bytes. A single profile belongs to a single item unless their ids differ.
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
