package apitest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-chat/parley/openapi"
)

var (
	requestID = regexp.MustCompile(`^req_[0-9A-HJKMNP-TV-Z]{26}$`)
	// general are headers of HTTP itself, which the contract does not declare.
	general = []string{
		"Cache-Control", "Connection", "Content-Length", "Content-Type", "Date", "Vary", "X-Content-Type-Options",
	}
)

// Check returns what of a response is not as the contract says: its status, headers, schema or error code; nil if all is.
func (s *Server) Check(method, path string, answer Answer) error {
	if id := answer.Header.Get("X-Request-Id"); !requestID.MatchString(id) {
		return fmt.Errorf("X-Request-Id is %q", id)
	}
	if err := checkGeneral(path, answer); err != nil {
		return err
	}
	operation := operationOf(s.Contract, method, strings.TrimPrefix(path, "/v1"))
	// The contract declares these once, for all operations.
	everywhere := answer.Status == http.StatusNotImplemented || answer.Status == http.StatusRequestHeaderFieldsTooLarge
	if answer.Status == http.StatusMethodNotAllowed && method != http.MethodHead { // declared once, for all paths
		operation, _ = s.Contract.Operation(http.MethodGet, "/health")
	}
	if operation == nil || method == http.MethodHead || everywhere {
		return s.checkUndeclared(method, answer)
	}
	declared := declaredFor(s.Contract, operation, answer.Status)
	if declared.err != nil {
		return fmt.Errorf("%s answered %d, which the contract does not declare (%w): %s", operation.ID, answer.Status, declared.err, answer.Body)
	}
	if err := validate(declared.schema, answer); err != nil {
		return fmt.Errorf("%s answered %d: %w", operation.ID, answer.Status, err)
	}
	return errors.Join(checkHeaders(operation, answer, declared.headers), checkCode(operation, answer, declared.codes))
}

// declaration is what the contract says of the answers of an operation with a status.
type declaration struct {
	schema  *jsonschema.Schema
	headers []declaredHeader
	codes   []string
	err     error
}

type declaredHeader struct {
	name, kind string
	schema     *jsonschema.Schema
}

// declarations are those that were read before: tests compare hundreds of thousands of answers.
var declarations sync.Map

func declaredFor(contract *openapi.Contract, operation *openapi.Operation, status int) *declaration {
	type key struct {
		contract *openapi.Contract
		id       string
		status   int
	}
	of := key{contract, operation.ID, status}
	if found, known := declarations.Load(of); known {
		return found.(*declaration)
	}
	made := &declaration{}
	made.schema, made.err = operation.Response(status)
	for _, name := range operation.ResponseHeaders(status) {
		schema, kind, err := operation.ResponseHeader(status, name)
		made.headers, made.err = append(made.headers, declaredHeader{name, kind, schema}), errors.Join(made.err, err)
	}
	codes, err := operation.Codes(status)
	made.codes, made.err = codes, errors.Join(made.err, err)
	declarations.Store(of, made)
	return made
}

// checkGeneral checks the headers that the contract does not declare.
func checkGeneral(path string, answer Answer) error {
	kind, cached, vary := "application/json", "private, no-store", "Authorization"
	if answer.Status == http.StatusNotModified || answer.Status == http.StatusFound {
		kind = ""
	}
	if answer.Header.Get("ETag") != "" {
		cached = "private, no-cache"
		if path == "/v1/openapi.json" {
			cached, vary = "public, no-cache", "Authorization, Accept-Encoding"
		}
	}
	for name, want := range map[string]string{"Content-Type": kind, "Cache-Control": cached, "Vary": vary} {
		if got := strings.Join(answer.Header.Values(name), ", "); got != want {
			return fmt.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if kind == "" && len(answer.Body) > 0 {
		return fmt.Errorf("status %d has a body: %s", answer.Status, answer.Body)
	}
	return nil
}

// checkUndeclared checks an answer of no operation: an error in its envelope, or of HEAD nothing.
func (s *Server) checkUndeclared(method string, answer Answer) error {
	if method == http.MethodHead {
		if len(answer.Body) > 0 {
			return fmt.Errorf("HEAD was answered with a body: %s", answer.Body)
		}
		return nil
	}
	schema, err := s.Contract.Schema("ErrorEnvelope")
	if err != nil {
		return err
	}
	if allow := answer.Header.Get("Allow"); (answer.Status == http.StatusMethodNotAllowed) != (allow != "") {
		return fmt.Errorf("status %d with Allow %q", answer.Status, allow)
	}
	return validate(schema, answer)
}

func validate(schema *jsonschema.Schema, answer Answer) error {
	if schema == nil {
		if len(answer.Body) > 0 {
			return fmt.Errorf("the contract declares no body: %s", answer.Body)
		}
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer.Body))
	if err != nil {
		return fmt.Errorf("%w; body: %s", err, answer.Body)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%w; body: %s", err, answer.Body)
	}
	return nil
}

// checkHeaders checks that an answer has the headers that its status declares, with values that fit, and no others.
func checkHeaders(operation *openapi.Operation, answer Answer, declared []declaredHeader) error {
	for _, header := range declared {
		values := answer.Header.Values(header.name)
		if len(values) == 0 && sometimes(header.name, answer.Status) {
			continue
		}
		if len(values) != 1 {
			return fmt.Errorf("%s answered %d with %d headers %s", operation.ID, answer.Status, len(values), header.name)
		}
		var value any = values[0]
		if number, err := strconv.Atoi(values[0]); err == nil && header.kind == "integer" {
			value = number
		}
		if err := header.schema.Validate(value); err != nil {
			return fmt.Errorf("%s answered %d with %s: %q: %w", operation.ID, answer.Status, header.name, values[0], err)
		}
	}
	for name := range answer.Header {
		same := func(other string) bool { return strings.EqualFold(other, name) }
		known := slices.ContainsFunc(declared, func(header declaredHeader) bool { return same(header.name) })
		if !known && !slices.ContainsFunc(general, same) {
			return fmt.Errorf("%s answered %d with the header %s, which the contract does not declare", operation.ID, answer.Status, name)
		}
	}
	return nil
}

// sometimes tells whether the contract declares a header that not every response with the status has. Some are answered before
// the organization is known, and then there is no rate limit to tell.
func sometimes(name string, status int) bool {
	switch name {
	case "Idempotent-Replayed":
		return true
	case "Retry-After":
		return status == http.StatusUnprocessableEntity || status == http.StatusBadGateway
	case "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset":
		return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
	default:
		return false
	}
}

// checkCode checks that the contract shows the error code of a refusal for the operation and the status.
func checkCode(operation *openapi.Operation, answer Answer, codes []string) error {
	if code := answer.Code(); code != "" && !slices.Contains(codes, code) {
		return fmt.Errorf("%s answered %d with the code %s, which the contract does not show there: %s",
			operation.ID, answer.Status, code, answer.Body)
	}
	return nil
}

// operationOf finds the operation of a real path: static segments win over parameters.
func operationOf(contract *openapi.Contract, method, path string) *openapi.Operation {
	var found *openapi.Operation
	plain := false // a path without a parameter at its end was found, which wins over those with one
	for _, operation := range contract.Operations() {
		if !strings.HasSuffix(operation.Path, "}") && fits(operation.Path, path) {
			if plain = true; operation.Method == method {
				return operation
			}
		}
	}
	for _, operation := range contract.Operations() {
		if plain && !strings.HasSuffix(operation.Path, "/{name}") {
			continue
		}
		if operation.Method == method && fits(operation.Path, path) {
			found = operation
		}
	}
	return found
}

func fits(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		parameter := strings.HasPrefix(want[i], "{")
		if want[i] != got[i] && (!parameter || got[i] == "") {
			return false
		}
		if want[i] == "{phone_number_id}" && strings.Trim(got[i], "0123456789") != "" {
			return false
		}
	}
	return true
}
