package events

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Recorded is an event as it was recorded.
type Recorded struct {
	ID   ID
	Key  string
	Type Type
	Body []byte
}

// Status is the status that a message.status tells; empty for other types.
func (r Recorded) Status() string {
	status, _ := r.Told()
	return status
}

// Told returns the status that a message.status tells, and the words of its error; empty if it has none.
func (r Recorded) Told() (status, problem string) {
	var body printed
	if r.Type != MessageStatus || json.Unmarshal(r.Body, &body) != nil {
		return "", ""
	}
	for _, entry := range body.Entry {
		for _, change := range entry.Changes {
			for _, one := range change.Value.Statuses { // a body has one
				status = one.Status
				for _, failed := range one.Errors {
					problem = failed.Title
				}
			}
		}
	}
	return status, problem
}

const sqlOfMessage = `
SELECT id, key, type, body
FROM events
WHERE org_id = @org_id
  AND message_id = @message
  AND id >= @floor
ORDER BY id
LIMIT @limit`

// OfMessage returns the events about a message since a time, oldest first, at most limit.
func OfMessage(ctx context.Context, scope postgres.Scope, message ids.Any, since time.Time, limit int) ([]Recorded, error) {
	return postgres.Many[Recorded](ctx, scope, sqlOfMessage,
		postgres.Args{"message": message, "floor": ids.Floor[kind](since), "limit": limit})
}
