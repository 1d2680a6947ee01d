// Package openapi loads the contract from openapi.yaml: the document that is served, and the
// schemas that check requests, and in tests also answers. It does not know the handlers.
package openapi

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed openapi.yaml
var source []byte

// Contract is read-only and safe for concurrent use.
type Contract struct {
	json       []byte
	root       place
	schemas    *schemas
	operations []*Operation
	byRoute    map[string]*Operation
}

// Load reads the embedded contract and compiles the schemas of requests, once per process. The
// schemas of answers are compiled at their first use.
func Load() (*Contract, error) { return loadOnce() }

var loadOnce = sync.OnceValues(func() (*Contract, error) { return load(source) }) //nolint:gochecknoglobals // read-only

func load(yaml []byte) (*Contract, error) {
	root, err := parse(yaml)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	c := &Contract{root: root, byRoute: make(map[string]*Operation)}
	if c.json, err = root.json(); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	if c.schemas, err = newSchemas(c.json); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	for _, path := range root.at("paths").members() {
		if err := c.addPath(path); err != nil {
			return nil, fmt.Errorf("openapi: %s: %w", path.name, err)
		}
	}
	return c, nil
}

func (c *Contract) addPath(path place) error {
	for _, method := range path.members() {
		if !slices.Contains(methods, method.name) {
			continue
		}
		operation, err := c.newOperation(path, method)
		if err != nil {
			return fmt.Errorf("%s: %w", method.name, err)
		}
		c.operations = append(c.operations, operation)
		c.byRoute[operation.Method+" "+operation.Path] = operation
	}
	return nil
}

// JSON is the document, members in the order of the yaml. Do not write to it.
func (c *Contract) JSON() []byte { return c.json }

// Operations returns all operations, in the order of the document.
func (c *Contract) Operations() []*Operation { return slices.Clone(c.operations) }

// Operation finds one by method and path template, as in GET `/labels/{id}`.
func (c *Contract) Operation(method, path string) (*Operation, bool) {
	operation, ok := c.byRoute[strings.ToUpper(method)+" "+path]
	return operation, ok
}

// Schema is `components/schemas/<name>`.
func (c *Contract) Schema(name string) (*jsonschema.Schema, error) {
	return c.schemas.compile(c.root.at("components", "schemas", name))
}

// Enum returns the values of a named enumeration in the order of the document. It is empty when
// the schema does not exist or is no enumeration.
func (c *Contract) Enum(name string) []string {
	var values []string
	for _, value := range c.root.at("components", "schemas", name, "enum").items() {
		values = append(values, value.text())
	}
	return values
}

// Webhooks are the names of the events, in the order of the document.
func (c *Contract) Webhooks() []string {
	var names []string
	for _, webhook := range c.root.at("webhooks").members() {
		names = append(names, webhook.name)
	}
	return names
}

// Webhook is the schema of the body of an event.
func (c *Contract) Webhook(name string) (*jsonschema.Schema, error) {
	body := c.resolve(c.resolve(c.root.at("webhooks", name)).at("post", "requestBody"))
	return c.schemas.compile(body.at("content", mediaJSON, "schema"))
}

// WebhookExample is the example of an event's body, compact. An event without one is an error.
func (c *Contract) WebhookExample(name string) ([]byte, error) {
	body := c.resolve(c.resolve(c.root.at("webhooks", name)).at("post", "requestBody"))
	shown, err := c.examples(body.at("content", mediaJSON))
	if err != nil || len(shown) == 0 {
		return nil, errors.Join(fmt.Errorf("the event %q has no example", name), err)
	}
	return shown[0].Value, nil
}

// resolve follows `$ref`, which can be used in place of any object of the document.
func (c *Contract) resolve(p place) place {
	for range maxReferences {
		reference := p.at("$ref")
		if !reference.exists() {
			return p
		}
		p = c.root.follow(reference.text())
	}
	return place{}
}

// maxReferences is how many references resolve follows, so that it ends when they form a circle.
const maxReferences = 10
