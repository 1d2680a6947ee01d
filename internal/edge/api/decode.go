package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/openapi"
)

// readInput checks the query against the contract and reads the body. A file is stored while it arrives.
func (a *API) readInput(c *call) error {
	operation := c.route.operation
	if operation == nil {
		return nil
	}
	if err := readQuery(c); err != nil {
		return err
	}
	if c.route.upload {
		return a.receive(c)
	}
	// A POST without a body in the contract is read too, so that refuseUnwanted can name unknown fields.
	reads := operation.Body != nil || operation.Method == http.MethodPost && len(operation.BodyTypes) == 0
	if !reads || c.request.ContentLength == 0 && !operation.BodyRequired {
		return nil
	}
	if err := checkMediaType(c.request.Header); err != nil {
		return err
	}
	if c.request.ContentLength > jsonin.MaxBodyBytes {
		return errTooLarge
	}
	body, err := io.ReadAll(c.request.Body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return errTooLarge
	}
	if err != nil {
		return fault.New(fault.InvalidFieldValue, "The request body is shorter than its Content-Length, or its chunks are malformed.")
	}
	if len(body) > 0 || operation.BodyRequired { // a body in chunks may turn out to be empty
		c.body = body
	}
	return nil
}

// maxHeaderBytes is the largest size of a request's line and headers. The server reads somewhat more, so that the
// refusal is an answer of the API.
const maxHeaderBytes = 16 << 10

func checkHeaderSize(r *http.Request) error {
	size := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size <= maxHeaderBytes {
		return nil
	}
	return fault.New(fault.HeadersTooLarge, "The path and the headers of a request may have at most %d bytes together.", maxHeaderBytes)
}

// refuseUnwanted refuses the members of a body that an operation without a body was sent.
func refuseUnwanted(c *call) error {
	if c.body == nil || c.route.operation.Body != nil {
		return nil
	}
	document, err := jsonin.Parse(c.body)
	if err != nil {
		return err
	}
	return unknownField(document.Value(), nil)
}

var errTooLarge = fault.New(fault.RequestTooLarge, "The request body is larger than %d bytes.", jsonin.MaxBodyBytes)

// refuseEncoding refuses a compressed body.
func refuseEncoding(header http.Header) error {
	for _, encoding := range header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return fault.New(fault.UnsupportedMediaType, "The request body must not be compressed. Send it without Content-Encoding.")
		}
	}
	return nil
}

func checkMediaType(header http.Header) error {
	if err := refuseEncoding(header); err != nil {
		return err
	}
	media, params, err := mime.ParseMediaType(strings.Join(header.Values("Content-Type"), ", "))
	charset, given := params["charset"]
	if err != nil || media != "application/json" || given && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.UnsupportedMediaType, "The request body must be JSON in UTF-8, sent with `Content-Type: application/json`.")
	}
	return nil
}

// decode parses the body strictly, checks it against the contract's schema and reads it into a Draft
// or Patch. Where the contract makes the body optional, a missing one is an empty object. In a POST, null for an optional
// field means that it is not given.
func decode[T any](c *call) (T, error) {
	var none T
	var document jsonin.Document
	if c.body != nil {
		var err error
		if document, err = jsonin.Parse(c.body); err != nil {
			return none, err
		}
	}
	if c.request.Method == http.MethodPost {
		var err error
		if document, err = document.WithoutNulls(c.route.operation.Body); err != nil {
			return none, err
		}
	}
	if err := document.Check(c.route.operation.Body); err != nil {
		return none, emptyPatch(c, document, unchangeable(c, err))
	}
	return jsonin.Into[T](document)
}

// unchangeable says of a field that a PATCH does not take, and the resource has, that it cannot be changed.
func unchangeable(c *call, err error) error {
	refusal, operation := fault.As(err), c.route.operation
	if refusal == nil || refusal.Code != fault.InvalidFieldValue || operation.Method != http.MethodPatch ||
		operation.Takes(refusal.Param) || !operation.Shows(refusal.Param) {
		return err
	}
	return fault.Invalid(refusal.Param, "cannot be changed")
}

// emptyPatch names the fields of which a PATCH needs one. The first of them is the param.
func emptyPatch(c *call, document jsonin.Document, err error) error {
	fields := c.route.operation.BodyFields()
	if c.request.Method != http.MethodPatch || len(document.Value()) > 0 || len(fields) == 0 || fault.Of(err) != fault.InvalidFieldValue {
		return err
	}
	return fault.New(fault.MissingRequiredField,
		"The body changes nothing. Give at least one of `%s`.", strings.Join(fields, "`, `")).At(fields[0])
}

// readQuery refuses parameters that the operation does not have, and values that its schemas do not
// allow.
func readQuery(c *call) error {
	query, err := url.ParseQuery(c.request.URL.RawQuery)
	if err != nil {
		return fault.New(fault.InvalidFieldValue, "The query string is malformed: check its percent-encoding.")
	}
	c.query = query
	known := map[string]bool{}
	for _, parameter := range c.route.operation.Query {
		known[parameter.Name] = true
		if err := checkParameter(parameter, query[parameter.Name]); err != nil {
			return err
		}
	}
	for pair := range strings.SplitSeq(c.request.URL.RawQuery, "&") {
		escaped, _, _ := strings.Cut(pair, "=")
		if name, _ := url.QueryUnescape(escaped); pair != "" && !known[name] {
			return fault.Invalid(jsonin.FieldName(name), "is not a parameter of this operation")
		}
	}
	return nil
}

func checkParameter(parameter openapi.Parameter, values []string) error {
	switch {
	case len(values) == 0 && parameter.Required:
		return fault.Missing(parameter.Name)
	case len(values) == 0, parameter.Name == "limit", parameter.Name == "cursor":
		if len(values) > 1 {
			return fault.Invalid(parameter.Name, "was given more than once")
		}
		return nil // sliceOf checks limit and cursor, which have their own codes
	case len(values) > 1:
		return fault.Invalid(parameter.Name, "was given more than once")
	case !utf8.ValidString(values[0]) || strings.Contains(values[0], "\x00"):
		return fault.Invalid(parameter.Name, "must be UTF-8 without NUL")
	default:
		return jsonin.CheckValue(parameter.Name, typed(values[0], parameter.Type), parameter.Schema)
	}
}

var integer = regexp.MustCompile(`^-?[0-9]{1,15}$`)

// typed converts text to the type that its schema expects. Text that has not that form stays text, and
// the schema then refuses it.
func typed(text, kind string) any {
	switch {
	case kind == "integer" && integer.MatchString(text):
		return json.Number(text)
	case kind == "boolean" && (text == "true" || text == "false"):
		return text == "true"
	default:
		return text
	}
}

// list answers one page of a list. The cursor is bound to the path and to the filters, so that it
// cannot be used for another list.
func list[T, P, R any](
	c *call, resource func(T) R, page func(context.Context, orgs.ID, paging.Slice[P]) (paging.Page[T, P], error),
) (reply, error) {
	slice, err := sliceOf[P](c)
	if err != nil {
		return reply{}, err
	}
	found, err := page(c.ctx(), c.org(), slice)
	if err != nil {
		return reply{}, err
	}
	resources := make([]R, len(found.Items))
	for i, item := range found.Items {
		resources[i] = resource(item)
	}
	body := listEnvelope{Data: resources, RequestID: c.id.String()}
	if found.Next != nil {
		cursor, err := paging.Seal(c.cursors, walkOf(c), *found.Next)
		if err != nil {
			return reply{}, err
		}
		body.HasMore, body.NextCursor = true, &cursor
	}
	return reply{status: http.StatusOK, body: body}, nil
}

func sliceOf[P any](c *call) (paging.Slice[P], error) {
	slice := paging.Slice[P]{Limit: paging.DefaultLimit}
	if text, given := c.query["limit"]; given {
		limit, err := strconv.Atoi(text[0])
		if err != nil || strconv.Itoa(limit) != text[0] || limit < 1 || limit > paging.MaxLimit {
			return slice, fault.New(fault.InvalidLimit, "The parameter `limit` must be a whole number from 1 to %d.", paging.MaxLimit).At("limit")
		}
		slice.Limit = limit
	}
	if cursor, given := c.query["cursor"]; given {
		after, err := paging.Open[P](c.cursors, walkOf(c), cursor[0])
		if err != nil {
			return slice, err
		}
		slice.After = after
	}
	return slice, nil
}

// walkOf is the list that a cursor is bound to: the path and all parameters except limit and cursor.
func walkOf(c *call) paging.List {
	filters := maps.Clone(c.query)
	delete(filters, "limit")
	delete(filters, "cursor")
	return paging.List{Org: c.org(), Name: c.request.URL.Path, Filters: filters.Encode()}
}
