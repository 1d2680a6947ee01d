package api

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/openapi"
)

// receipt is the name of the read receipt among the schemas of sendSchemas. No message type is
// called so.
const receipt = ""

// sendTypes are the types of messages that can be sent.
var sendTypes = []string{
	provider.TypeText, provider.TypeImage, provider.TypeDocument, provider.TypeVideo, provider.TypeAudio, provider.TypeTemplate,
	provider.TypeInteractive, provider.TypeReaction,
}

// sendFields are the fields that a body of every type may have besides its content.
var sendFields = []string{"messaging_product", "recipient_type", "to", "recipient", "context", "type", "biz_opaque_callback_data"}

// sendSchemas returns the schema of the body of POST messages for each type, and that of a read
// receipt.
func sendSchemas(contract *openapi.Contract) (map[string]*jsonschema.Schema, error) {
	names := map[string]string{receipt: "ReadReceipt"}
	for _, kind := range sendTypes {
		names[kind] = "Send" + strings.ToUpper(kind[:1]) + kind[1:]
	}
	schemas := make(map[string]*jsonschema.Schema, len(names))
	for kind, name := range names {
		schema, err := contract.Schema(name)
		if err != nil {
			return nil, err
		}
		schemas[kind] = schema
	}
	return schemas, nil
}

// decodeSend is decode for POST messages. The contract's schema is a choice between a receipt and
// eight types. The body is checked against the one that it names, so that the fault is not that of
// another one.
func (a *API) decodeSend(c *call) (sendBody, error) {
	document, err := jsonin.Parse(c.body)
	if err != nil {
		return sendBody{}, err
	}
	kind, _ := document.Value()["type"].(string) // a receipt has none
	if schema := a.sends[kind]; schema != nil {
		if document, err = document.WithoutNulls(schema); err != nil {
			return sendBody{}, err
		}
	}
	if err := a.checkSend(document); err != nil {
		return sendBody{}, err
	}
	return jsonin.Into[sendBody](document)
}

func (a *API) checkSend(document jsonin.Document) error {
	body := document.Value()
	given, typed := body["type"]
	if !typed {
		return a.checkReceipt(document)
	}
	kind, _ := given.(string)
	if !slices.Contains(sendTypes, kind) {
		return fault.Invalid("type", "must be one of "+strings.Join(sendTypes, ", "))
	}
	err := document.Check(a.sends[kind])
	if fault.Of(err) != fault.MissingRequiredField && body["to"] == nil && body["recipient"] == nil {
		if _, given := body["to"]; !given {
			return fault.New(fault.MissingRequiredField, "Give `to`, a phone number, or `recipient`, a BSUID.").At("to")
		}
	}
	if err != nil {
		return err
	}
	return unknownField(body, append(slices.Clone(sendFields), kind))
}

// checkReceipt checks a body without a type. If it has no field of a receipt either, the caller
// most likely meant to send.
func (a *API) checkReceipt(document jsonin.Document) error {
	body := document.Value()
	_, status := body["status"]
	_, message := body["message_id"]
	if !status && !message {
		return fault.Missing("type")
	}
	return document.Check(a.sends[receipt])
}

// unknownField refuses the first field, by name, that is not known. The schemas of sends are made of
// two parts, so that neither part can refuse unknown fields by itself.
func unknownField(body map[string]any, known []string) error {
	var unknown []string
	for name := range body {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fault.Invalid(printable(slices.Min(unknown)), "is not a known field")
}
