package graph

import (
	"encoding/json"
	"testing"

	"github.com/parley-chat/parley/internal/simulator/state"
)

// FuzzSend checks that no body of a send causes a panic.
func FuzzSend(f *testing.F) {
	for _, body := range []string{
		`{"to":"1","type":"text","text":{"body":"x"}}`, `{"to":1,"type":2}`, `{"to":"1","type":"contacts","contacts":[1]}`,
		`{"to":"1","type":"interactive","interactive":{"type":"list","action":{"sections":[{"rows":[{}]}]}}}`,
		`{"to":"1","type":"template","template":{"name":"order_update","language":{"code":"en_US"},"components":[{"type":"button","index":9}]}}`,
		`{"to":"1","type":"template","template":{"name":"spring_sale","language":{"code":"en_US"},"components":[{"type":"carousel","cards":[{}]}]}}`,
	} {
		f.Add(body)
	}
	s := state.New(state.Config{})
	f.Fuzz(func(t *testing.T, body string) {
		form := object{}
		if json.Unmarshal([]byte(body), &form) != nil {
			t.Skip()
		}
		m, err := readMessage(form)
		if err != nil {
			return
		}
		for _, template := range s.Data.Templates {
			of, _ := m.content.(object)
			m.template = template
			components, _ := of["components"].([]any)
			_ = template.Shape.Fit(components) // only panics matter
			chatContent(&m)
		}
		_ = (&state.Template{
			Name: "x", Language: "en", Category: "MARKETING", Format: "NAMED", Components: []any{m.content, form},
		}).Check() // only panics matter
	})
}
