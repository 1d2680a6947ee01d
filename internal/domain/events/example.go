package events

import (
	"encoding/json"
	"fmt"
)

// printed has the places in which a body prints the event's key.
type printed struct {
	ID    string `json:"id"`
	Entry []struct {
		Changes []struct {
			Value struct {
				Messages []struct {
					ID string `json:"id"`
				} `json:"messages"`
				Statuses []struct {
					ID string `json:"id"`
				} `json:"statuses"`
			} `json:"value"`
		} `json:"changes"`
	} `json:"entry"`
}

// Example drafts an event with an example body of the contract. Its key is the one that the
// body prints.
func Example(of Type, body []byte) (Draft, error) {
	var found printed
	if err := json.Unmarshal(body, &found); err != nil {
		return Draft{}, fmt.Errorf("example of %s: %w", of, err)
	}
	draft := Draft{Type: of, Key: found.ID, Body: body}
	for _, entry := range found.Entry {
		for _, change := range entry.Changes {
			for _, one := range append(change.Value.Messages, change.Value.Statuses...) {
				draft.Key = one.ID
			}
		}
	}
	if draft.Key == "" {
		return Draft{}, fmt.Errorf("the example of %s prints no id", of)
	}
	return draft, nil
}
