package content

import (
	"math"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-chat/parley/internal/provider"
)

// shapes has the rules of the content schemas of openapi.yaml (TextContent, ...) for each type. A
// test compares both.
var shapes = map[string]check{
	provider.TypeText: object([]string{"body"}, fields{"body": text(1, 4096), "preview_url": boolean}),
	provider.TypeImage: object(nil, fields{
		"link": link, "id": mediaID, "caption": text(0, 1024),
	}),
	provider.TypeDocument: object(nil, fields{
		"link": link, "id": mediaID, "caption": text(0, 1024), "filename": text(1, 255),
	}),
	provider.TypeVideo: object(nil, fields{
		"link": link, "id": mediaID, "caption": text(0, 1024),
	}),
	provider.TypeAudio: object(nil, fields{"link": link, "id": mediaID, "voice": boolean}),
	provider.TypeReaction: object([]string{"message_id", "emoji"}, fields{
		"message_id": text(1, unlimited), "emoji": text(0, 16),
	}),
	provider.TypeTemplate: object([]string{"name", "language"}, fields{
		"name": text(1, 512), "language": language, "components": list(0, unlimited, component),
	}),
	provider.TypeInteractive: object([]string{"type", "body", "action"}, fields{
		"type":   oneOf("button", "reply_buttons", "list", "cta_url", "flow"),
		"header": header,
		"body":   object([]string{"text"}, fields{"text": text(1, 4096)}),
		"footer": object([]string{"text"}, fields{"text": text(1, 60)}),
		"action": action,
	}),
}

func link(c *checker, n *node) { address(2048)(c, n) }

// libraryID is the pattern of MediaId in the contract.
var libraryID = regexp.MustCompile(`^med_[0-9A-HJKMNP-TV-Z]{26}$`)

func mediaID(c *checker, n *node) {
	switch {
	case n.kind != jsontext.KindString:
		c.invalid(n, "must be a string")
	case !libraryID.MatchString(n.text):
		c.invalid(n, "must be the id of a library file, which starts with med_; got %s", quoted(n.text))
	}
}

func language(c *checker, n *node) {
	either("a string or an object", map[jsontext.Kind]check{
		jsontext.KindString: text(1, unlimited),
		jsontext.KindBeginObject: object([]string{"code"}, fields{
			"code": text(1, unlimited), "policy": text(0, unlimited),
		}),
	})(c, n)
}

// component checks a component of a template message.
func component(c *checker, n *node) {
	index := either("a whole number or a string", map[jsontext.Kind]check{
		jsontext.KindNumber: integer(math.Inf(-1)), jsontext.KindString: anything,
	})
	card := object([]string{"components"}, fields{
		"card_index": integer(0), "components": list(0, unlimited, component),
	})
	object([]string{"type"}, fields{
		"type": text(0, unlimited), "sub_type": text(0, unlimited), "index": index,
		"parameters": list(0, unlimited, parameter), "cards": list(0, 10, card),
	})(c, n)
}

// parameter checks a value of a template's variable.
func parameter(c *checker, n *node) {
	object([]string{"type"}, fields{
		"type": text(0, unlimited), "text": text(1, unlimited), "parameter_name": text(0, unlimited),
		"currency": object([]string{"fallback_value"}, fields{
			"fallback_value": text(0, unlimited), "code": text(0, unlimited), "amount_1000": integer(math.Inf(-1)),
		}),
		"date_time": object([]string{"fallback_value"}, fields{"fallback_value": text(0, unlimited)}),
		"image":     file, "video": file, "document": file,
		"location": object([]string{"latitude", "longitude"}, fields{
			"latitude": coordinate, "longitude": coordinate, "name": text(0, unlimited), "address": text(0, unlimited),
		}),
		"payload": text(0, unlimited), "coupon_code": text(1, 20), "action": object(nil, nil),
	})(c, n)
}

func coordinate(c *checker, n *node) {
	either("a number or a string", map[jsontext.Kind]check{
		jsontext.KindNumber: anything, jsontext.KindString: text(1, unlimited),
	})(c, n)
}

// file checks a file in a header or a template.
func file(c *checker, n *node) {
	object(nil, fields{"link": link, "id": mediaID, "filename": text(0, unlimited)})(c, n)
}

func header(c *checker, n *node) {
	object([]string{"type"}, fields{
		"type": oneOf("text", "image", "video", "document"), "text": text(1, 60),
		"image": file, "video": file, "document": file,
	})(c, n)
}

// action checks the members that any interactive type may have; rules checks which of them it needs.
func action(c *checker, n *node) {
	button := object([]string{"type", "reply"}, fields{
		"type":  oneOf("reply"),
		"reply": object([]string{"id", "title"}, fields{"id": text(1, 256), "title": text(1, 20)}),
	})
	row := object([]string{"id", "title"}, fields{
		"id": text(1, 200), "title": text(1, 24), "description": text(0, 72),
	})
	section := object([]string{"rows"}, fields{"title": text(0, 24), "rows": list(1, 10, row)})
	parameters := object(nil, fields{
		"display_text": text(1, 20), "url": address(unlimited),
		"flow_message_version": text(1, unlimited), "flow_id": text(1, unlimited), "flow_name": text(1, unlimited),
		"flow_cta": text(1, 30), "mode": oneOf("draft", "published"), "flow_token": text(0, unlimited),
		"flow_action":         oneOf("navigate", "data_exchange"),
		"flow_action_payload": object(nil, fields{"screen": text(0, unlimited), "data": object(nil, nil)}),
	})
	object(nil, fields{
		"buttons": list(1, 3, button), "button": text(1, 20), "sections": list(1, 10, section),
		"name": oneOf("cta_url", "flow"), "parameters": parameters,
	})(c, n)
}
