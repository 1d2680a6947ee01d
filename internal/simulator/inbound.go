package simulator

import (
	"encoding/base64"
	"maps"
	"strings"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// inbound is something that a user does, as /sim asks for it.
type inbound struct {
	PhoneNumberID string      `json:"phone_number_id"`
	From          string      `json:"from"`
	UserID        string      `json:"user_id"`
	Type          string      `json:"type"`
	Context       object      `json:"context"`
	Referral      object      `json:"referral"`
	Errors        []toldError `json:"errors"`
	Origin        string      `json:"origin"`
	Name          string      `json:"name"`
	Username      *string     `json:"username"`
}

// simInbound lets a user write to a number.
func (s *Simulator) simInbound(c *controlled, in inbound) (any, error) {
	n, who, err := s.between(in)
	if err != nil {
		return nil, err
	}
	if in.Name != "" || in.Username != nil {
		who = s.rename(who, in)
	}
	if in.Type == "" {
		in.Type = "text"
	}
	content, err := s.contentOf(n, c, in.Type, c.form[in.Type])
	if err != nil {
		return nil, err
	}
	id := s.receive(n, who, in, content, c)
	return object{"id": id}, nil
}

func (s *Simulator) rename(who *person, in inbound) *person {
	changed := *who
	if in.Name != "" {
		changed.Name = in.Name
	}
	if in.Username != nil {
		changed.Username = strings.TrimPrefix(*in.Username, "@")
	}
	s.world.people.keep(&changed)
	return &changed
}

// receive opens the window, shows the message on the phone and tells the apps.
func (s *Simulator) receive(n *number, who *person, in inbound, content any, c *controlled) (id string) {
	now := c.now
	id = wire.MessageID(who.Phone, wire.FromUser)
	owner := n.Account
	message := object{"from_user_id": who.userID(owner), "id": id, fieldTimestamp: seconds(now), "type": in.Type, in.Type: content}
	if in.Type == "errors" || in.Type == "from" { // would hide the field of that name
		message[in.Type] = nil
	}
	put(message, "from", who.shownPhone())
	put(message, "from_parent_user_id", who.parentUserID(owner))
	put(message, "origin", in.Origin)
	if in.Context != nil {
		message["context"] = s.contextOf(n, who, in.Context)
	}
	if in.Referral != nil {
		message["referral"] = in.Referral
	}
	if in.Errors != nil {
		message["errors"] = in.Errors
	} else if in.Type == "unsupported" {
		message["errors"] = told(wire.Refusal(131051, "Message type is currently not supported."))
	}
	s.world.windows.open(pair{n.ID, who.Phone}, now)
	n.bucket.refill(now, n.perSecond(), n.perSecond())
	n.bucket.tokens-- // what users write counts against the number's throughput
	s.counts.inbound.Add(1)
	replied, _ := in.Context["id"].(string)
	s.show(&bubble{
		ID: id, PhoneNumberID: n.ID, Phone: who.Phone, Type: in.Type, Content: content, ContextID: replied, At: clock.Stamp(now),
		Status: "sent",
	})
	s.change(in.Type, content)
	value := object{
		fieldProduct: wire.Product, fieldMetadata: n.metadata(), fieldContacts: []contact{contactOf(who, owner)},
		fieldMessages: []object{message},
	}
	s.tell(event{account: owner, number: n, field: fieldMessages, value: value})
	return id
}

// contextOf completes a reply's context: who wrote what is replied to.
func (s *Simulator) contextOf(n *number, who *person, given object) object {
	context := maps.Clone(given)
	id, _ := given["id"].(string)
	if _, direction, ok := wire.ReadMessageID(id); ok && context["from"] == nil {
		switch {
		case direction == wire.ToUser:
			context["from"] = n.Digits
		case who.shownPhone() != "":
			context["from"] = who.Phone
		}
	}
	return context
}

// change shows what an edit or a revocation did to an earlier message.
func (s *Simulator) change(kind string, content any) {
	of, _ := content.(object)
	id, _ := of["original_message_id"].(string)
	b := s.world.bubbles[id]
	if b == nil {
		return
	}
	switch kind {
	case "revoke":
		b.Revoked = true
	case "edit":
		edited, _ := of["message"].(object)
		newKind, _ := edited["type"].(string)
		if newContent := edited[newKind]; newContent != nil {
			b.Type, b.Content, b.Edited = newKind, newContent, true
		}
	default:
		return
	}
	s.live.publish("message", b)
}

// contentOf completes what /sim was given into what the network would tell.
func (s *Simulator) contentOf(n *number, c *controlled, kind string, given any) (any, error) {
	if content.IsMedia(kind) {
		of, _ := given.(object)
		return s.receivedFile(n, c, kind, of)
	}
	if given == nil {
		if given = sample(kind); given == nil {
			return nil, wire.Refusal(100, "a message of type %s needs its content in the field %s", kind, kind)
		}
	}
	return given, nil
}

// sample is content for a message whose sender did not care.
func sample(kind string) any {
	switch kind {
	case "text":
		return object{"body": "Hello"}
	case "location":
		return object{"latitude": 38.7223, "longitude": -9.1393, "name": "Lisbon", "address": "Praça do Comércio"}
	case fieldContacts:
		return []any{object{
			"name":   object{"formatted_name": "Grace Hopper", "first_name": "Grace", "last_name": "Hopper"},
			"phones": []any{object{"phone": "+1 555-010-0002", "type": "CELL", "wa_id": "15550100002"}},
		}}
	case "interactive":
		return object{"type": "button_reply", "button_reply": object{"id": "yes", "title": "Yes"}}
	case "button":
		return object{"payload": "yes", "text": "Yes"}
	case "order":
		return object{"catalog_id": "700000000000001", "text": "", "product_items": []any{
			object{"product_retailer_id": "sku-1", "quantity": 1, "item_price": 9.5, "currency": "EUR"},
		}}
	case "unsupported":
		return object{"type": "unknown"}
	default:
		return nil
	}
}

// receivedFile stores what a user sent and describes it as callbacks do.
func (s *Simulator) receivedFile(n *number, c *controlled, kind string, given object) (object, error) {
	found, err := s.givenFile(n, c, kind, given)
	if err != nil {
		return nil, err
	}
	told := object{"mime_type": found.Mime, "sha256": found.sum64(), "id": found.ID}
	if _, given := given["url"]; !given { // null leaves it out, as older deliveries do
		told["url"] = s.mediaURL(s.base(c.r), found, c.now)
	}
	if caption, _ := given["caption"].(string); caption != "" && (kind == "image" || kind == "video" || kind == kindDocument) {
		told["caption"] = caption
	}
	switch kind {
	case kindDocument:
		if told["filename"] = found.Filename; found.Filename == "" {
			told["filename"] = "document.pdf"
		}
	case "audio":
		told["voice"] = given["voice"] == true
	case "sticker":
		told["animated"] = given["animated"] == true
	}
	return told, nil
}

// givenFile is a file that was uploaded before, or comes along, or a sample.
func (s *Simulator) givenFile(n *number, c *controlled, kind string, given object) (*media, error) {
	if id, _ := given["id"].(string); id != "" {
		if found := s.world.media.find(id, c.now); found != nil {
			return found, nil
		}
		return nil, wire.Refusal(100, "there is no media %s", id)
	}
	mime, data := content.SampleFile(kind)
	if encoded, _ := given["data"].(string); encoded != "" {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, wire.Refusal(100, "data is not base64")
		}
		data = decoded
	}
	if named, _ := given["mime_type"].(string); named != "" {
		mime = named
	}
	filename, _ := given["filename"].(string)
	return s.world.keepMedia(n.ID, mime, filename, data, c.now.Add(receivedLife), c.now), nil
}
