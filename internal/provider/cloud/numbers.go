package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-chat/parley/internal/provider"
)

// The fields of a number: those that every version knows, and all that are of use.
const (
	plainNumberFields = "id,display_phone_number,verified_name,status,code_verification_status,quality_rating"
	numberFields      = plainNumberFields + ",throughput,platform_type,is_on_biz_app,whatsapp_business_manager_messaging_limit"
)

// withFields asks for all fields, and for the plain ones when the network knows one of them
// no more: a field that was renamed must not take the others with it.
func withFields(all, plain string, ask func(query url.Values) error) error {
	err := ask(url.Values{"fields": {all}})
	if failed, ok := provider.As(err); ok && failed.ProviderCode != nil && *failed.ProviderCode == 100 && !failed.Missing {
		return ask(url.Values{"fields": {plain}})
	}
	return err
}

// FetchNumber reads a number.
func (c *Client) FetchNumber(ctx context.Context, number provider.Number) (provider.NumberState, error) {
	const operation = "fetch_number"
	if err := c.node(operation, number.ID, decimal); err != nil {
		return provider.NumberState{}, err
	}
	var found rawNode
	err := withFields(numberFields, plainNumberFields, func(query url.Values) error {
		return c.call(ctx, request{operation: operation, method: http.MethodGet, path: number.ID, token: number.Token, query: query}, &found)
	})
	if err != nil {
		return provider.NumberState{}, err
	}
	return numberOf(found.raw), nil
}

// maxPages bounds a list that does not end.
const maxPages = 50

// ListNumbers reads every number of an account.
func (c *Client) ListNumbers(ctx context.Context, of provider.BusinessAccount) ([]provider.NumberState, error) {
	const operation = "list_numbers"
	if err := c.node(operation, of.ID, decimal); err != nil {
		return nil, err
	}
	var numbers []provider.NumberState
	err := withFields(numberFields, plainNumberFields, func(query url.Values) (err error) {
		query.Set("limit", "100")
		numbers, err = c.listNumbers(ctx, request{
			operation: operation, method: http.MethodGet, path: of.ID + "/phone_numbers", token: of.Token, query: query,
		})
		return err
	})
	return numbers, err
}

func (c *Client) listNumbers(ctx context.Context, r request) (numbers []provider.NumberState, err error) {
	for range maxPages {
		var listed page
		if err := c.call(ctx, r, &listed); err != nil {
			return nil, err
		}
		for _, raw := range *listed.Data {
			numbers = append(numbers, numberOf(raw))
		}
		if listed.next() == "" {
			break
		}
		r.query.Set("after", listed.next())
	}
	return numbers, nil
}

var throughputs = map[text]provider.Throughput{"STANDARD": provider.ThroughputStandard, "HIGH": provider.ThroughputHigh}

func numberOf(raw json.RawMessage) provider.NumberState {
	given := read[struct {
		ID         text `json:"id"`
		Display    text `json:"display_phone_number"`
		Name       text `json:"verified_name"`
		Status     text `json:"status"`
		Verified   text `json:"code_verification_status"`
		Quality    text `json:"quality_rating"`
		Throughput struct {
			Level text `json:"level"`
		} `json:"throughput"`
		Platform text `json:"platform_type"`
		PhoneApp flag `json:"is_on_biz_app"`
		Tier     text `json:"whatsapp_business_manager_messaging_limit"`
	}](raw)
	return provider.NumberState{
		ID: string(given.ID), Phone: phone(given.Display), Display: string(given.Display), Name: string(given.Name),
		Status: strings.ToUpper(string(given.Status)), Verified: given.Verified == "VERIFIED",
		Quality: string(given.Quality), Throughput: throughputs[given.Throughput.Level], DailyLimit: daily(string(given.Tier)),
		Coexistence: bool(given.PhoneApp) && given.Platform == "CLOUD_API", Raw: raw,
	}
}

// Register connects a number with its PIN.
func (c *Client) Register(ctx context.Context, number provider.Number, pin provider.PIN) error {
	body := map[string]string{"messaging_product": product, "pin": pin.Reveal()}
	return c.post(ctx, "register", number, "register", body, new(done), pin.Reveal())
}

// Deregister disconnects a number.
func (c *Client) Deregister(ctx context.Context, number provider.Number) error {
	return c.post(ctx, "deregister", number, "deregister", map[string]string{}, new(done))
}

// SyncPhoneApp starts one of the two synchronizations.
func (c *Client) SyncPhoneApp(ctx context.Context, number provider.Number, what provider.PhoneAppData) error {
	kind := "smb_app_state_sync"
	if what == provider.PhoneAppHistory {
		kind = "history"
	}
	return c.post(ctx, "sync_phone_app", number, "smb_app_data",
		map[string]string{"messaging_product": product, "sync_type": kind}, new(requested))
}

type requested struct {
	ID      text `json:"request_id"`
	Success flag `json:"success"`
}

func (r *requested) complete() bool { return r.ID != "" || bool(r.Success) }

func (c *Client) post(
	ctx context.Context, operation string, number provider.Number, edge string, body any, into completable, secrets ...string,
) error {
	if err := c.node(operation, number.ID, decimal); err != nil {
		return err
	}
	return c.call(ctx, request{
		operation: operation, method: http.MethodPost, path: number.ID + "/" + edge, token: number.Token, body: encode(body), secrets: secrets,
	}, into)
}
