package openapi

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// serving is how the document of a server differs from the contract, which the tests use. Clients are generated from the
// served document: they must accept fields and codes that a later version adds.
type serving struct {
	// unserved are the operations that get the member `x-served: false`.
	unserved map[*yaml.Node]bool
	// samples are the members `x-codeSamples` of the other operations, as JSON.
	samples map[*yaml.Node][]byte
	// requests are the parts of what callers send. All other schemas are open for new fields.
	requests map[*yaml.Node]bool
	// codes is the schema whose values a later version may add to.
	codes *yaml.Node
	// titles replace the summaries of events: they start with the event's name, by which people look for it.
	titles map[*yaml.Node]string
	// servers is replaced by the address of the server.
	servers *yaml.Node
	address string
}

// Serving is the document of a server at address, with `/v1`, that serves these operations.
func (c *Contract) Serving(served []*Operation, address string) ([]byte, error) {
	s := &serving{
		unserved: map[*yaml.Node]bool{}, samples: map[*yaml.Node][]byte{}, requests: map[*yaml.Node]bool{}, address: address,
		titles: map[*yaml.Node]string{}, codes: c.root.at("components", "schemas", "ErrorCode").node, servers: c.root.at("servers").node,
	}
	for _, operation := range c.operations {
		if slices.Contains(served, operation) {
			samples, err := operation.samples(address)
			if err != nil {
				return nil, fmt.Errorf("openapi: the samples of %s: %w", operation.ID, err)
			}
			s.samples[operation.place.node] = samples
		} else {
			s.unserved[operation.place.node] = true
		}
		c.mark(s.requests, operation.place.at("requestBody").node)
		c.mark(s.requests, operation.place.at("parameters").node)
	}
	for _, path := range c.root.at("paths").members() {
		c.mark(s.requests, path.at("parameters").node)
	}
	for _, event := range c.root.at("webhooks").members() {
		if summary := c.resolve(event).at("post", "summary"); summary.exists() {
			s.titles[summary.node] = event.name + ": " + summary.text()
		}
	}
	return c.root.write(s)
}

// mark adds a node, those in it, and those that they refer to.
func (c *Contract) mark(marked map[*yaml.Node]bool, node *yaml.Node) {
	node = target(node)
	if node == nil || marked[node] {
		return
	}
	marked[node] = true
	for index, inner := range node.Content {
		c.mark(marked, inner)
		if node.Kind == yaml.MappingNode && index%2 == 1 && node.Content[index-1].Value == "$ref" {
			c.mark(marked, c.root.follow(inner.Value).node)
		}
	}
}

// omits tells that a member is left out: one that closes the schema of an answer or event.
func (s *serving) omits(object *yaml.Node, name string, value *yaml.Node) bool {
	closes := name == "additionalProperties" || name == "unevaluatedProperties"
	return s != nil && closes && value.Value == "false" && !s.requests[object]
}

// renamed returns the name of a member: the values of a schema that is open for more are listed under another keyword.
func (s *serving) renamed(object *yaml.Node, name string) string {
	if s != nil && object == s.codes && name == "enum" {
		return "x-extensible-enum"
	}
	return name
}
