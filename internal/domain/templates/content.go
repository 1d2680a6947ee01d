package templates

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// component is the part of a component that has variables in it.
type component struct {
	Type    string   `json:"type"`
	Text    string   `json:"text"`
	Buttons []button `json:"buttons"`
	Cards   []struct {
		Components []component `json:"components"`
	} `json:"cards"`
}

type button struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

var variable = regexp.MustCompile(`\{\{\s*([A-Za-z0-9_]+)\s*\}\}`)

// contentOf is the text of the body and the names of the variables: those of the header
// first, then of the body, then of the buttons, each once; then those of carousel cards.
func contentOf(raw json.RawMessage) (content string, names []string) {
	var all []component
	_ = json.Unmarshal(raw, &all) // what cannot be read has none
	names = []string{}
	for _, kind := range []string{"HEADER", "BODY", "BUTTONS", "CAROUSEL"} {
		for _, one := range all {
			if !strings.EqualFold(one.Type, kind) {
				continue
			}
			if kind == "BODY" && content == "" {
				content = one.Text
			}
			names = one.gather(names)
		}
	}
	return content, names
}

func (c component) gather(names []string) []string {
	texts := []string{c.Text}
	for _, one := range c.Buttons {
		texts = append(texts, one.Text, one.URL)
	}
	for _, text := range texts {
		for _, match := range variable.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(names, match[1]) {
				names = append(names, match[1])
			}
		}
	}
	for _, card := range c.Cards {
		for _, one := range card.Components {
			names = one.gather(names)
		}
	}
	return names
}
