package openapi

import "github.com/santhosh-tekuri/jsonschema/v6"

// LoadFrom loads a document other than the embedded one.
var LoadFrom = load

// LoadAnew loads the embedded document again.
func LoadAnew() (*Contract, error) { return load(source) }

// CompileAt compiles the schema at a JSON pointer, which must be valid in a URL's fragment.
func (c *Contract) CompileAt(pointer string) (*jsonschema.Schema, error) {
	return c.schemas.compile(place{pointer: pointer, node: c.root.node})
}
