package cloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/provider"
)

// object returns a body as valid UTF-8 without NULs and lone surrogates; the error says that it is no JSON object. The splitter
// relies on valid JSON.
func object(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) || !json.Valid(body) {
		return nil, errors.New("the callback is not a JSON object")
	}
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	return storable(body), nil
}

// piece is the smallest part that a body is divided into: an entry with one change, or with some
// items of a long change.
type piece struct {
	entry   members
	change  json.RawMessage // nil for an entry without changes
	items   int
	address provider.Notification
}

// Divide finds the addresses in a body. It builds no item: it skips the bytes of a list, or
// counts its elements.
func (c *Client) Divide(body []byte, most int) ([]provider.Addressed, error) {
	readable, err := object(body)
	if err != nil {
		return nil, err
	}
	whole := fieldsOf(readable)
	var all []provider.Addressed
	var pieces [][]piece // of each address
	places, items := map[[2]string]int{}, 0
	for _, entry := range elements(whole["entry"]) {
		for _, one := range piecesOf(entry, most) {
			key := [2]string{one.address.NumberID}
			if key[0] == "" {
				key[1] = one.address.BusinessAccountID
			}
			place, known := places[key]
			if !known {
				place = len(all)
				places[key] = place
				all = append(all, provider.Addressed{NumberID: one.address.NumberID, BusinessAccountID: one.address.BusinessAccountID})
				pieces = append(pieces, nil)
			}
			pieces[place] = append(pieces[place], one)
			items += one.items
		}
	}
	if len(all) == 0 {
		all = append(all, provider.Addressed{})
	}
	if len(all) == 1 && items <= most {
		all[0].Bodies = [][]byte{body}
		return all, nil
	}
	for i := range all {
		all[i].Bodies = pack(whole, pieces[i], most)
	}
	return all, nil
}

// piecesOf divides an entry into its changes, and long changes by their items.
func piecesOf(raw json.RawMessage, most int) (pieces []piece) {
	entry := fieldsOf(raw)
	id := read[text](entry["id"])
	for _, raw := range elements(entry["changes"]) {
		given := fieldsOf(raw)
		one := &change{entry: id, field: string(read[text](given["field"])), value: fieldsOf(given["value"])}
		address := one.address()
		add := func(raw json.RawMessage, items int) {
			pieces = append(pieces, piece{entry: entry, change: raw, items: items, address: address})
		}
		if items := one.items(); items <= most {
			add(raw, items)
			continue
		}
		one.cut(most, func(value members, items int) { add(encode(replaced(given, "value", encode(value))), items) })
	}
	if len(pieces) == 0 {
		pieces = []piece{{entry: entry, items: 1, address: provider.Notification{BusinessAccountID: string(id)}}}
	}
	return pieces
}

// items counts the elements of the change's lists; a value without lists is one item.
func (c *change) items() (count int) {
	if fields[c.field].lists {
		for _, name := range lists {
			count += len(elements(c.value[name]))
		}
	}
	return max(count, 1)
}

// cut divides the lists of a change into stretches of equal length. Each stretch keeps the
// other members of the value: the number, and the profiles that its items refer to.
func (c *change) cut(most int, add func(value members, items int)) {
	rest := maps.Clone(c.value)
	for _, name := range lists {
		delete(rest, name)
	}
	for _, name := range lists {
		given, present := c.value[name]
		items := elements(given)
		switch count := len(items); {
		case count > 0:
			parts := (count + most - 1) / most
			for some := range slices.Chunk(items, (count+parts-1)/parts) {
				add(replaced(rest, name, encode(some)), len(some))
			}
		case present && items == nil:
			add(replaced(rest, name, given), 1) // no list: Parse reports it
		}
	}
}

func replaced(object members, name string, value json.RawMessage) members {
	object = maps.Clone(object)
	object[name] = value
	return object
}

// pack writes bodies of at most so many items, in the order of the pieces.
func pack(whole members, pieces []piece, most int) (bodies [][]byte) {
	for len(pieces) > 0 {
		var entries []members
		for items := 0; len(pieces) > 0 && (items == 0 || items+pieces[0].items <= most); pieces = pieces[1:] {
			items += pieces[0].items
			entry := pieces[0].entry
			if pieces[0].change != nil {
				entry = replaced(entry, "changes", encode(list{pieces[0].change}))
			}
			entries = append(entries, entry)
		}
		bodies = append(bodies, encode(replaced(whole, "entry", encode(entries))))
	}
	return bodies
}
