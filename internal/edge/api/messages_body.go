package api

import (
	"maps"
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
	document, err := a.parseSend(c)
	if err != nil {
		return sendBody{}, err
	}
	if err := a.checkSend(document); err != nil {
		return sendBody{}, err
	}
	return jsonin.Into[sendBody](document)
}

// parseSend parses the body. Null for an optional field means that it is not given.
func (a *API) parseSend(c *call) (jsonin.Document, error) {
	document, err := jsonin.Parse(c.body)
	if err != nil {
		return document, err
	}
	kind, _ := document.Value()["type"].(string) // a receipt has none
	if schema := a.sends[kind]; schema != nil {
		return document.WithoutNulls(schema)
	}
	return document, nil
}

func (a *API) checkSend(document jsonin.Document) error {
	if _, typed := document.Value()["type"]; !typed {
		return a.checkReceipt(document)
	}
	faults, err := a.sendFaults(document, 1)
	if err == nil && len(faults) > 0 {
		return faults[0]
	}
	return err
}

// sendFaults returns the faults of the body of a send: missing fields first, unknown ones last. The schemas give at most so
// many. It returns an error for a body without a type that can be sent, of which nothing else can be judged.
func (a *API) sendFaults(document jsonin.Document, most int) ([]*fault.Error, error) {
	body := document.Value()
	kind, _ := body["type"].(string)
	if !slices.Contains(sendTypes, kind) {
		return nil, fault.Invalid("type", "must be one of "+strings.Join(sendTypes, ", "))
	}
	faults, err := document.Faults(a.sends[kind], most)
	if err != nil {
		return nil, err
	}
	if _, given := body["to"]; !given && body["recipient"] == nil {
		missing := slices.IndexFunc(faults, func(f *fault.Error) bool { return f.Code != fault.MissingRequiredField })
		if missing < 0 {
			missing = len(faults)
		}
		nobody := fault.New(fault.MissingRequiredField, "Give `to`, a phone number, or `recipient`, a BSUID.").At("to")
		faults = slices.Insert(faults, missing, nobody)
	}
	return append(faults, unknownFields(body, append(slices.Clone(sendFields), kind))...), nil
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

// unknownField refuses the first field, by name, that is not known.
func unknownField(body map[string]any, known []string) error {
	if faults := unknownFields(body, known); len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// unknownFields refuses the fields that are not known, by name. The schemas of sends are made of two
// parts, so that neither part can refuse unknown fields by itself.
func unknownFields(body map[string]any, known []string) (faults []*fault.Error) {
	for _, name := range slices.Sorted(maps.Keys(body)) {
		if !slices.Contains(known, name) {
			faults = append(faults, fault.Invalid(jsonin.FieldName(name), "is not a known field"))
		}
	}
	return faults
}
