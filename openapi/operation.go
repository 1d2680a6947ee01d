package openapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const mediaJSON = "application/json"

// methods are the members of a path item that are operations.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// Operation is one method of one path, with what a request to it must look like.
type Operation struct {
	ID     string
	Method string
	// Path is the template, as in `/labels/{id}`, without the base address.
	Path string
	// Public operations need no API key.
	Public bool

	// Body is the schema of a JSON body, or nil when the operation takes none.
	Body         *jsonschema.Schema
	BodyRequired bool
	// BodyTypes are the media types that a body may have, such as multipart/form-data.
	BodyTypes []string

	Query   []Parameter
	Headers []Parameter
	// PathParameters are the names in Path, in the order of the document.
	PathParameters []Parameter

	contract *Contract
	place    place
}

// Parameter is a part of a request that is not the body.
type Parameter struct {
	Name     string
	Required bool
	Schema   *jsonschema.Schema
	// Type is the JSON type to which the text is converted before it is checked: string, integer,
	// number, boolean or array.
	Type string
	// Example is a value that fits, as text.
	Example string
}

func (c *Contract) newOperation(path, operation place) (*Operation, error) {
	security := operation.at("security")
	o := &Operation{
		ID:       operation.at("operationId").text(),
		Method:   strings.ToUpper(operation.name),
		Path:     path.name,
		Public:   security.exists() && len(security.items()) == 0,
		contract: c,
		place:    operation,
	}
	body := c.resolve(operation.at("requestBody"))
	o.BodyRequired = body.at("required").text() == "true"
	for _, media := range body.at("content").members() {
		o.BodyTypes = append(o.BodyTypes, media.name)
	}
	if schema := body.at("content", mediaJSON, "schema"); schema.exists() {
		compiled, err := c.schemas.compile(schema)
		if err != nil {
			return nil, fmt.Errorf("request body: %w", err)
		}
		o.Body = compiled
	}
	return o, c.addParameters(o, path.at("parameters"), operation.at("parameters"))
}

// addParameters adds the parameters of the path and of the operation. A parameter of the operation
// replaces the path's of the same name.
func (c *Contract) addParameters(o *Operation, lists ...place) error {
	var order []string
	declared := make(map[string]place)
	for _, list := range lists {
		for _, item := range list.items() {
			parameter := c.resolve(item)
			key := parameter.at("in").text() + " " + parameter.at("name").text()
			if _, ok := declared[key]; !ok {
				order = append(order, key)
			}
			declared[key] = parameter
		}
	}
	for _, key := range order {
		where, name, _ := strings.Cut(key, " ")
		schema, err := c.schemas.compile(declared[key].at("schema"))
		if err != nil {
			return fmt.Errorf("parameter %q: %w", name, err)
		}
		parameter := Parameter{
			Name:     name,
			Required: declared[key].at("required").text() == "true",
			Schema:   schema,
			Type:     primaryType(schema),
			Example:  declared[key].at("example").text(),
		}
		switch where {
		case "query":
			o.Query = append(o.Query, parameter)
		case "header":
			o.Headers = append(o.Headers, parameter)
		case "path":
			o.PathParameters = append(o.PathParameters, parameter)
		default:
			return fmt.Errorf("parameter %q: in %q is not supported", name, where)
		}
	}
	return nil
}

// Takes tells whether the JSON body may have a field.
func (o *Operation) Takes(name string) bool {
	body := o.contract.resolve(o.place.at("requestBody"))
	return o.contract.property(body.at("content", mediaJSON, "schema"), name).exists()
}

// BodyFields are the fields that the JSON body may have, in the order of the document.
func (o *Operation) BodyFields() (names []string) {
	body := o.contract.resolve(o.place.at("requestBody"))
	schema := o.contract.resolve(body.at("content", mediaJSON, "schema"))
	for _, property := range schema.at("properties").members() {
		names = append(names, property.name)
	}
	return names
}

// Shows tells whether the resource that the operation answers with 200 has a field.
func (o *Operation) Shows(name string) bool {
	answer, _ := o.response(http.StatusOK)
	data := o.contract.property(answer.at("content", mediaJSON, "schema"), "data")
	return o.contract.property(data, name).exists()
}

// property finds the schema of a member, in a schema or in the schemas that it is made of.
func (c *Contract) property(schema place, name string) place {
	schema = c.resolve(schema)
	if found := schema.at("properties", name); found.exists() {
		return found
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for _, part := range schema.at(keyword).items() {
			if found := c.property(part, name); found.exists() {
				return found
			}
		}
	}
	return place{}
}

// Statuses are the statuses that the operation declares, in the order of the document.
func (o *Operation) Statuses() []int {
	var statuses []int
	for _, response := range o.place.at("responses").members() {
		if status, err := strconv.Atoi(response.name); err == nil {
			statuses = append(statuses, status)
		}
	}
	return statuses
}

// Response is the schema of the JSON body that the operation answers with a status. It is nil when
// that answer has no body, and an error when the operation does not declare the status.
func (o *Operation) Response(status int) (*jsonschema.Schema, error) {
	response, ok := o.response(status)
	if !ok {
		return nil, fmt.Errorf("openapi: %s does not declare status %d", o.ID, status)
	}
	schema := response.at("content", mediaJSON, "schema")
	if !schema.exists() {
		return nil, nil //nolint:nilnil // an answer without a body has no schema
	}
	return o.contract.schemas.compile(schema)
}

// ResponseHeader is the schema of a header that a status declares, and the JSON type to which its text is converted before
// it is checked. It is an error when the status does not declare the header.
func (o *Operation) ResponseHeader(status int, name string) (*jsonschema.Schema, string, error) {
	response, _ := o.response(status)
	schema, err := o.contract.schemas.compile(o.contract.resolve(response.at("headers", name)).at("schema"))
	if err != nil {
		return nil, "", err
	}
	return schema, primaryType(schema), nil
}

// ResponseHeaders are the names of the headers that a status declares.
func (o *Operation) ResponseHeaders(status int) []string {
	response, _ := o.response(status)
	var names []string
	for _, header := range response.at("headers").members() {
		names = append(names, header.name)
	}
	return names
}

func (o *Operation) response(status int) (place, bool) {
	for _, name := range []string{strconv.Itoa(status), fmt.Sprintf("%dXX", status/100), "default"} {
		if response := o.place.at("responses").at(name); response.exists() {
			return o.contract.resolve(response), true
		}
	}
	return place{}, false
}
