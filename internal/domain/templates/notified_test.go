package templates_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/templates"
)

// TestNotified_OlderThanAnEdit_ChangesNothing repeats notifications about a template that was edited since.
func TestNotified_OlderThanAnEdit_ChangesNothing(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	id := b.create(t, "shared", "en_US", "")
	b.sync(t, b.account)
	b.Network.Control(t, "templates/"+id+"/review", map[string]any{"event": "REJECTED", "reason": "SCAM"})
	b.Clock.Move(time.Minute)
	reviewed := b.Clock.Now()
	status := func(event string, at time.Time) {
		b.notify(t, "message_template_status_update", id, `"event":"`+event+`","reason":"SCAM"`, at)
	}
	moved := func() {
		b.notify(t, "template_category_update", id, `"previous_category":"MARKETING","new_category":"UTILITY"`, reviewed)
	}
	find := func() templates.Template {
		template, err := b.Templates.Find(ctx, b.org, b.account, "shared", "en_US")
		require.NoError(t, err)
		return template
	}
	status("REJECTED", reviewed)
	require.Equal(t, templates.Rejected, find().Status)
	b.Clock.Move(time.Minute)
	edited, err := b.Templates.Update(ctx, b.org, b.account, "shared", templates.Patch{
		Category: "MARKETING", Components: json.RawMessage(`[{"type":"BODY","text":"Hello again"}]`),
	})
	require.NoError(t, err)
	require.Equal(t, templates.Pending, edited.Status)

	before := find()
	status("REJECTED", reviewed)
	status("PAUSED", reviewed.Add(time.Second))
	moved()
	require.Equal(t, before, find())
	status("APPROVED", b.Clock.Now())
	require.Equal(t, templates.Approved, find().Status, "a review within the second of the edit may be of the edit")
}
