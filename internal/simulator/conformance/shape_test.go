// Package conformance_test checks the simulator's answers and callbacks against the provider's
// description. It uses HTTP and no type of the simulator. A field that is not in the
// description is an error. Section numbers in comments are those of the description.
package conformance_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

type object = map[string]any

// shape returns what is wrong with a JSON value.
type shape func(path string, value any) []string

func fault(path, words string, args ...any) []string {
	return []string{path + ": " + fmt.Sprintf(words, args...)}
}

// match accepts text that matches a pattern.
func match(pattern string) shape {
	compiled := regexp.MustCompile("^(?:" + pattern + ")$")
	return func(path string, value any) []string {
		text, ok := value.(string)
		if !ok || !compiled.MatchString(text) {
			return fault(path, "%#v does not match %s", value, pattern)
		}
		return nil
	}
}

// one accepts the texts of a list.
func one(of ...string) shape {
	return func(path string, value any) []string {
		if text, ok := value.(string); !ok || !slices.Contains(of, text) {
			return fault(path, "%#v is none of %v", value, of)
		}
		return nil
	}
}

func integer(path string, value any) []string {
	if n, ok := value.(float64); !ok || n != float64(int64(n)) {
		return fault(path, "%#v is not an integer", value)
	}
	return nil
}

func number(path string, value any) []string {
	if _, ok := value.(float64); !ok {
		return fault(path, "%#v is not a number", value)
	}
	return nil
}

func boolean(path string, value any) []string {
	if _, ok := value.(bool); !ok {
		return fault(path, "%#v is not a boolean", value)
	}
	return nil
}

func exactly(want float64) shape {
	return func(path string, value any) []string {
		if value != want {
			return fault(path, "%#v is not %g", value, want)
		}
		return nil
	}
}

func anything(string, any) []string { return nil }

// either accepts what one of the shapes accepts.
func either(shapes ...shape) shape {
	return func(path string, value any) (faults []string) {
		for _, s := range shapes {
			found := s(path, value)
			if len(found) == 0 {
				return nil
			}
			faults = append(faults, found...)
		}
		return faults
	}
}

// list accepts an array of at least one item.
func list(item shape) shape {
	return func(path string, value any) (faults []string) {
		items, ok := value.([]any)
		if !ok || len(items) == 0 {
			return fault(path, "%#v is not a non-empty array", value)
		}
		for i, each := range items {
			faults = append(faults, item(fmt.Sprintf("%s[%d]", path, i), each)...)
		}
		return faults
	}
}

// fields accepts an object with these fields only; a name that ends in ? is optional.
type fields map[string]shape

func (f fields) shape(path string, value any) (faults []string) {
	of, ok := value.(object)
	if !ok {
		return fault(path, "%#v is not an object", value)
	}
	for name, check := range f {
		bare, optional := strings.CutSuffix(name, "?")
		given, present := of[bare]
		switch {
		case present:
			faults = append(faults, check(path+"."+bare, given)...)
		case !optional:
			faults = append(faults, fault(path, "%s is missing", bare)...)
		}
	}
	for name := range of {
		if f[name] == nil && f[name+"?"] == nil {
			faults = append(faults, fault(path, "%s is not in the description", name)...)
		}
	}
	return faults
}

// and adds fields.
func (f fields) and(more fields) fields {
	all := fields{}
	maps.Copy(all, f)
	maps.Copy(all, more)
	return all
}

// Shapes that several tests use.
var (
	text          = match(`(?s).+`)
	digits        = match(`[0-9]{7,15}`)
	decimal       = match(`[0-9]+`)
	wamid         = match(`wamid\.[A-Za-z0-9+/=]+`)
	userID        = match(`[A-Z]{2}[.](ENT[.])?[A-Za-z0-9]{1,128}`)
	unix          = match(`1[0-9]{9}`)
	product       = one("whatsapp")
	https         = match(`https?://.+`)
	success       = fields{"success": boolean}.shape
	details       = fields{"details": text}.shape
	base64        = match(`[A-Za-z0-9+/]+=*`)
	metadata      = fields{"display_phone_number": digits, "phone_number_id": decimal}.shape
	callbackError = fields{"code": integer, "title": text, "message": text, "error_data": details, "href?": https}.shape
	contact       = fields{
		"profile": fields{"name": text, "username?": text}.shape, "wa_id?": digits, "user_id": userID, "parent_user_id?": userID,
		"identity_key_hash?": text,
	}.shape
	envelope = fields{"object": one("whatsapp_business_account"), "entry": list(fields{
		"id": decimal, "time?": integer, "changes": list(fields{"field": text, "value": anything}.shape),
	}.shape)}.shape
	inboundFields = fields{
		"from?": digits, "from_user_id": userID, "from_parent_user_id?": userID, "id": wamid, "timestamp": unix, "type": text,
		"context?": anything, "referral?": anything, "errors?": list(callbackError),
	}
)

// messages returns the shape of a callback about an inbound message.
func messages(kind string, content shape, more fields) shape {
	message := inboundFields.and(fields{"type": one(kind)}).and(more)
	if content != nil {
		message[kind] = content
	}
	return fields{"messaging_product": product, "metadata": metadata, "contacts": list(contact), "messages": list(message.shape)}.shape
}
