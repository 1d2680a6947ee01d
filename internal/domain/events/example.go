package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// printed has the places in which a body prints the event's key, and a status with its errors.
type printed struct {
	ID    string `json:"id"`
	Entry []struct {
		Changes []struct {
			Value struct {
				Messages []struct {
					ID string `json:"id"`
				} `json:"messages"`
				Statuses []struct {
					ID     string `json:"id"`
					Status string `json:"status"`
					Errors []struct {
						Title string `json:"title"`
					} `json:"errors"`
				} `json:"statuses"`
			} `json:"value"`
		} `json:"changes"`
	} `json:"entry"`
}

// Example drafts an event with an example body of the contract. Its key is the one that the
// body prints, with a new id in it: a receiver that has seen an example must not take the next for a repetition.
func Example(of Type, body []byte, now time.Time) (Draft, error) {
	var found printed
	if err := json.Unmarshal(body, &found); err != nil {
		return Draft{}, fmt.Errorf("example of %s: %w", of, err)
	}
	draft := Draft{Type: of, Key: found.ID, Body: body}
	for _, entry := range found.Entry {
		for _, change := range entry.Changes {
			for _, one := range change.Value.Messages {
				draft.Key = one.ID
			}
			for _, one := range change.Value.Statuses {
				draft.Key = one.ID
			}
		}
	}
	if draft.Key == "" {
		return Draft{}, fmt.Errorf("the example of %s prints no id", of)
	}
	draft.renew(strings.TrimPrefix(ids.New[kind](now).String(), kind{}.Prefix()))
	return draft, nil
}

// renew replaces the id in the key, and where the body prints it. A key is an id of ours (`evt_…`, `msg_…:sent`) or one of
// the provider (`pmid.…`).
func (d *Draft) renew(fresh string) {
	old, _, _ := strings.Cut(d.Key, ":")
	prefix := old[:strings.IndexAny(old, "_.")+1]
	d.Key = strings.Replace(d.Key, old, prefix+fresh, 1)
	d.Body = bytes.ReplaceAll(d.Body, []byte(old), []byte(prefix+fresh))
}
