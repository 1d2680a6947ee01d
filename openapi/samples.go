package openapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const mediaForm = "multipart/form-data"

// sample is a curl command for a terminal in which PARLEY_KEY is set. The viewer of the reference reads samples from the
// member `x-codeSamples` of an operation.
type sample struct {
	Language string `json:"lang"`
	Label    string `json:"label"`
	// Example is the name of the body's example that the command sends; empty if the body has no named examples.
	Example string `json:"example,omitempty"`
	Source  string `json:"source"`
}

// samples returns one command for each example of the operation's body, as JSON. address is that of the server, with `/v1`.
func (o *Operation) samples(address string) ([]byte, error) {
	head := []string{`curl "` + address + o.examplePath() + `"`}
	if !o.Public {
		head = append(head, `-H "Authorization: Bearer $PARLEY_KEY"`)
	}
	bodies, err := o.exampleBodies()
	if err != nil {
		return nil, err
	}
	if len(bodies) == 0 && o.Method != http.MethodGet || o.Method == http.MethodPatch {
		head[0] = "curl -X " + o.Method + strings.TrimPrefix(head[0], "curl")
	}
	if len(bodies) == 0 {
		bodies = []exampleBody{{}}
	}
	var all []sample
	for _, body := range bodies {
		source := strings.Join(slices.Concat(head, body.arguments), " \\\n  ")
		all = append(all, sample{Language: "curl", Label: "curl", Example: body.name, Source: source})
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(all)
	return bytes.TrimSpace(out.Bytes()), err
}

// examplePath is the path with the examples of its parameters. A parameter without an example becomes a shell variable:
// `{phone_number_id}` is $PHONE_NUMBER_ID.
func (o *Operation) examplePath() string {
	path := o.Path
	for _, parameter := range o.PathParameters {
		value := parameter.Example
		if value == "" {
			value = "$" + strings.ToUpper(parameter.Name)
		}
		path = strings.ReplaceAll(path, "{"+parameter.Name+"}", value)
	}
	return path
}

// exampleBody is an example of a body as arguments of curl.
type exampleBody struct {
	name      string
	arguments []string
}

func (o *Operation) exampleBodies() (all []exampleBody, err error) {
	body := o.contract.resolve(o.place.at("requestBody"))
	if form := body.at("content", mediaForm); form.exists() {
		return []exampleBody{{arguments: o.contract.formArguments(form)}}, nil
	}
	content := body.at("content", mediaJSON)
	if only := content.at("example"); only.exists() {
		arguments, err := jsonArguments(only)
		return []exampleBody{{arguments: arguments}}, err
	}
	for _, named := range content.at("examples").members() {
		arguments, err := jsonArguments(o.contract.resolve(named).at("value"))
		if err != nil {
			return nil, err
		}
		all = append(all, exampleBody{name: named.name, arguments: arguments})
	}
	return all, nil
}

// jsonArguments sends the example, indented. A shell ends a quoted text at the next apostrophe, so that one in the text is
// written as quote, backslash, quote, quote.
func jsonArguments(value place) ([]string, error) {
	encoded, err := place{node: portable(value.node)}.json()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, encoded, "  ", "  "); err != nil {
		return nil, err
	}
	return []string{
		`-H "Content-Type: ` + mediaJSON + `"`,
		`-d '` + strings.ReplaceAll(out.String(), `'`, `'\''`) + `'`,
	}, nil
}

// formArguments sends the required parts of a form. A part that is a file is read from the reader's disk.
func (c *Contract) formArguments(form place) (arguments []string) {
	schema := c.resolve(form.at("schema"))
	for _, required := range schema.at("required").items() {
		name, value := required.text(), form.at("example", required.text()).text()
		if c.property(schema, name).at("format").text() == "binary" {
			value = "@photo.jpg"
		}
		arguments = append(arguments, `-F "`+name+`=`+value+`"`)
	}
	return arguments
}

// portable is an example without the parts that are right in the example only: no other organization has its team, the time
// has passed when it is read, and the picture of a template's header cannot be loaded. All of them are optional.
func portable(node *yaml.Node) *yaml.Node {
	node = target(node)
	kept := *node
	kept.Content = nil
	switch node.Kind {
	case yaml.MappingNode:
		for index := 0; index+1 < len(node.Content); index += 2 {
			if name := node.Content[index]; name.Value != "team_id" && name.Value != "expires_at" {
				kept.Content = append(kept.Content, name, portable(node.Content[index+1]))
			}
		}
	case yaml.SequenceNode:
		for _, item := range node.Content {
			if picture := (place{node: item}).at("example", "header_url"); !picture.exists() {
				kept.Content = append(kept.Content, portable(item))
			}
		}
	default:
		return node
	}
	return &kept
}
