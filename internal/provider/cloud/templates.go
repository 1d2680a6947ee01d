package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/parley-chat/parley/internal/provider"
)

// The fields of a template: those that every version knows, and all that are of use.
const (
	plainTemplateFields = "id,name,language,status,category,components"
	templateFields      = plainTemplateFields + ",parameter_format,quality_score,rejected_reason,correct_category"
)

// ListTemplates reads a page.
func (c *Client) ListTemplates(
	ctx context.Context, of provider.BusinessAccount, query provider.TemplateQuery,
) (provider.TemplatePage, error) {
	const operation = "list_templates"
	if err := c.node(operation, of.ID, decimal); err != nil {
		return provider.TemplatePage{}, err
	}
	var listed page
	err := withFields(templateFields, plainTemplateFields, func(values url.Values) error {
		for name, value := range map[string]string{"name": query.Name, "after": query.After} {
			if value != "" {
				values.Set(name, value)
			}
		}
		if query.Limit > 0 {
			values.Set("limit", strconv.Itoa(query.Limit))
		}
		return c.call(ctx, request{
			operation: operation, method: http.MethodGet, path: of.ID + "/message_templates", token: of.Token, query: values,
		}, &listed)
	})
	if err != nil {
		return provider.TemplatePage{}, err
	}
	result := provider.TemplatePage{Next: listed.next()}
	for _, raw := range *listed.Data {
		result.Templates = append(result.Templates, templateOf(raw))
	}
	return result, nil
}

// page is a part of any list.
type page struct {
	Data   *list `json:"data"`
	Paging struct {
		Cursors struct {
			After text `json:"after"`
		} `json:"cursors"`
		Next text `json:"next"`
	} `json:"paging"`
}

func (p *page) complete() bool { return p.Data != nil }

// next is empty at the end, where a cursor may still be given.
func (p *page) next() string {
	if p.Paging.Next == "" {
		return ""
	}
	return string(p.Paging.Cursors.After)
}

// FetchTemplate reads one template.
func (c *Client) FetchTemplate(ctx context.Context, of provider.BusinessAccount, templateID string) (provider.Template, error) {
	const operation = "fetch_template"
	if err := c.node(operation, templateID, decimal); err != nil {
		return provider.Template{}, err
	}
	var found rawNode
	err := withFields(templateFields, plainTemplateFields, func(query url.Values) error {
		return c.call(ctx, request{operation: operation, method: http.MethodGet, path: templateID, token: of.Token, query: query}, &found)
	})
	if err != nil {
		return provider.Template{}, err
	}
	return templateOf(found.raw), nil
}

// rawNode is an object with an id, as its bytes.
type rawNode struct{ raw json.RawMessage }

func (w *rawNode) UnmarshalJSON(raw []byte) error {
	w.raw = append(json.RawMessage(nil), raw...)
	return nil
}

func (w *rawNode) complete() bool { return read[named](w.raw).ID != "" }

func templateOf(raw json.RawMessage) provider.Template {
	given := read[struct {
		ID         text            `json:"id"`
		Name       text            `json:"name"`
		Language   text            `json:"language"`
		Status     text            `json:"status"`
		Category   text            `json:"category"`
		Format     text            `json:"parameter_format"`
		Components json.RawMessage `json:"components"`
		Quality    struct {
			Score text `json:"score"`
		} `json:"quality_score"`
		Rejected text `json:"rejected_reason"`
		Correct  text `json:"correct_category"`
	}](raw)
	return provider.Template{
		ID: string(given.ID), Name: string(given.Name), Language: language(given.Language), Status: string(given.Status),
		Review: reviewOf(string(given.Status)), Category: string(given.Category), ParameterFormat: string(given.Format),
		Components: storable(given.Components),
		Quality:    string(given.Quality.Score), RejectedReason: reason(given.Rejected), CorrectCategory: string(given.Correct), Raw: raw,
	}
}

const approved = "APPROVED"

// reviewOf folds a status, or the event of a decision, into the specification's three states.
// A template that cannot be sent and is not under review counts as rejected.
func reviewOf(status string) provider.Review {
	switch status {
	case approved, "REINSTATED", "UNARCHIVED", "FLAGGED", "LOCKED", "UNLOCKED":
		return provider.ReviewApproved
	case "PENDING", "IN_APPEAL":
		return provider.ReviewPending
	default:
		return provider.ReviewRejected
	}
}

// reason is empty when the network says NONE.
func reason(given text) string {
	if strings.EqualFold(string(given), "NONE") {
		return ""
	}
	return line(string(given))
}

type createdTemplate struct {
	named

	Status   text `json:"status"`
	Category text `json:"category"`
}

// CreateTemplate submits a template.
func (c *Client) CreateTemplate(
	ctx context.Context, of provider.BusinessAccount, draft provider.TemplateDraft,
) (provider.TemplateCreated, error) {
	const operation = "create_template"
	if err := c.node(operation, of.ID, decimal); err != nil {
		return provider.TemplateCreated{}, err
	}
	r := request{operation: operation, method: http.MethodPost, path: of.ID + "/message_templates", token: of.Token}
	if !json.Valid(draft.Components) {
		return provider.TemplateCreated{}, c.impossible(r, "the template has no components")
	}
	body := map[string]any{"name": draft.Name, "language": draft.Language, "category": draft.Category, paramComponents: draft.Components}
	if draft.ParameterFormat != "" {
		body["parameter_format"] = strings.ToUpper(draft.ParameterFormat)
	}
	r.body = encode(body)
	var created createdTemplate
	if err := c.call(ctx, r, &created); err != nil {
		return provider.TemplateCreated{}, blamed(err, draft.Components)
	}
	return provider.TemplateCreated{ID: string(created.ID), Status: string(created.Status), Category: string(created.Category)}, nil
}

// EditTemplate submits a change.
func (c *Client) EditTemplate(ctx context.Context, of provider.BusinessAccount, templateID string, edit provider.TemplateEdit) error {
	const operation = "edit_template"
	if err := c.node(operation, templateID, decimal); err != nil {
		return err
	}
	r := request{operation: operation, method: http.MethodPost, path: templateID, token: of.Token}
	body := map[string]any{}
	if edit.Category != "" {
		body["category"] = edit.Category
	}
	if len(edit.Components) > 0 {
		if !json.Valid(edit.Components) {
			return c.impossible(r, "the components are not JSON")
		}
		body[paramComponents] = edit.Components
	}
	r.body = encode(body)
	return blamed(c.call(ctx, r, new(done)), edit.Components)
}

// DeleteTemplate deletes one language by id, or all of a name.
func (c *Client) DeleteTemplate(ctx context.Context, of provider.BusinessAccount, name, templateID string) error {
	const operation = "delete_template"
	if err := c.node(operation, of.ID, decimal); err != nil {
		return err
	}
	r := request{
		operation: operation, method: http.MethodDelete, path: of.ID + "/message_templates", token: of.Token, query: url.Values{"name": {name}},
	}
	if name == "" {
		return c.impossible(r, "the template has no name")
	}
	if templateID != "" {
		r.query.Set("hsm_id", templateID)
	}
	return c.call(ctx, r, new(done))
}

// blamed points to the field that a template was refused for.
func blamed(err error, components json.RawMessage) error {
	failed, ok := provider.As(err)
	if !ok {
		return err
	}
	found, known := templateFaults[failed.Subcode]
	if !known {
		return err
	}
	failed.Code, failed.Param = found.code, found.param
	if found.component == "" {
		return failed
	}
	for i, component := range read[[]struct {
		Type text `json:"type"`
	}](components) {
		if strings.EqualFold(string(component.Type), found.component) {
			failed.Param += "[" + strconv.Itoa(i) + "]"
			break
		}
	}
	return failed
}
