package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
)

// mostFaults is how many faults of a body are answered.
const mostFaults = 20

// validateMessage answers why a send would fail. A body is refused only if nothing else of it can be judged:
// it is no JSON object, or it does not name a type that can be sent.
func (a *API) validateMessage(c *call) (reply, error) {
	draft, faults, err := a.inspectSend(c)
	if err != nil {
		return reply{}, err
	}
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	found, err := c.cell.Messages.Validate(c.ctx(), c.org(), account, c.caller.Standing, draft, faults)
	if err != nil {
		return reply{}, err
	}
	return c.answer(http.StatusOK, found.Resource()), nil
}

// inspectSend reads the body of a send as far as it can be read, and returns all its faults.
func (a *API) inspectSend(c *call) (messages.Draft, []*fault.Error, error) {
	document, err := a.parseSend(c)
	if err != nil {
		return messages.Draft{}, nil, err
	}
	if _, typed := document.Value()["type"]; !typed {
		return messages.Draft{}, nil, fault.New(fault.MissingRequiredField,
			"The field `type` is required: only messages can be validated, not read receipts.").At("type")
	}
	faults, err := a.sendFaults(document, mostFaults)
	if err != nil {
		return messages.Draft{}, nil, err
	}
	// A field of the wrong type cannot be read into a sendBody. The content can, whatever it is.
	readable, err := document.Without(func(name string) bool {
		return name != document.Value()["type"] && slices.ContainsFunc(faults, func(f *fault.Error) bool { return fieldOf(f.Param) == name })
	})
	if err != nil {
		return messages.Draft{}, nil, err
	}
	body, err := jsonin.Into[sendBody](readable)
	if err != nil {
		return messages.Draft{}, nil, err
	}
	draft, more := body.draft()
	for _, one := range more {
		if !slices.ContainsFunc(faults, func(f *fault.Error) bool { return f.Param == one.Param }) {
			faults = append(faults, one)
		}
	}
	return draft, faults[:min(len(faults), mostFaults)], nil
}

// fieldOf is the field of the body that a param is in.
func fieldOf(param string) string {
	if end := strings.IndexAny(param, ".["); end >= 0 {
		return param[:end]
	}
	return param
}
