package templates_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/templates"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/network"
)

const business = "400000000000055"

// fixture is a cell with an organization that has a number.
type fixture struct {
	*factory.World

	org     orgs.ID
	account accounts.Account
}

func setup(t *testing.T) (context.Context, fixture) {
	t.Helper()
	b := fixture{World: factory.New(t)}
	b.org, _ = b.Org(t)
	b.account = b.connect(t, "100000000000055")
	return t.Context(), b
}

func (b fixture) connect(t testing.TB, number string) accounts.Account {
	t.Helper()
	b.Network.Number(t, business, number, nil)
	account, err := b.Accounts.Connect(t.Context(), b.org, audit.Operator(), accounts.Draft{
		BusinessAccountID: business, PhoneNumberID: number, Token: network.Token(),
	})
	require.NoError(t, err)
	return account
}

func owner() provider.BusinessAccount {
	return provider.BusinessAccount{ID: business, Token: network.Token()}
}

// create creates a template at the provider and returns its id.
func (b fixture) create(t testing.TB, name, language string, components string) string {
	t.Helper()
	if components == "" {
		components = `[{"type":"BODY","text":"Hello <b> & there"}]`
	}
	made, err := b.Network.CreateTemplate(t.Context(), owner(), provider.TemplateDraft{
		Name: name, Language: language, Category: "UTILITY", Components: json.RawMessage(components),
	})
	require.NoError(t, err)
	return made.ID
}

func (b fixture) sync(t testing.TB, of accounts.Account) templates.Synced {
	t.Helper()
	b.Clock.Move(time.Second)
	result, err := b.Templates.Sync(t.Context(), b.org, of)
	require.NoError(t, err)
	return result
}

func (b fixture) all(t testing.TB, of accounts.Account) map[string]templates.Template {
	t.Helper()
	found, slice := map[string]templates.Template{}, paging.Slice[templates.ID]{Limit: 100}
	for {
		page, err := b.Templates.List(t.Context(), b.org, of, templates.Filter{}, slice)
		require.NoError(t, err)
		for _, template := range page.Items {
			found[template.Name+" "+template.Language] = template
		}
		if page.Next == nil {
			return found
		}
		slice.After = page.Next
	}
}

func TestSync_ProviderChanges_TemplatesFollow(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	require.Equal(t, templates.Synced{}, b.sync(t, b.account))
	first := b.create(t, "first", "en_US", "")
	b.create(t, "first", "pt_BR", "")
	second := b.create(t, "second", "en_US", "")
	require.Equal(t, templates.Synced{Created: 3}, b.sync(t, b.account))
	require.Equal(t, templates.Synced{Unchanged: 3}, b.sync(t, b.account))
	made := b.all(t, b.account)["first en_US"]
	require.Equal(t, []any{templates.Pending, "PENDING", "UTILITY", "Hello <b> & there", first},
		[]any{made.Status, *made.ProviderStatus, *made.Category, made.Content, *made.ProviderTemplateID})
	require.JSONEq(t, `[{"type":"BODY","text":"Hello <b> & there"}]`, string(made.Components))

	b.Network.Control(t, "templates/"+first+"/review", map[string]any{"event": "APPROVED"})
	b.Network.Control(t, "templates/"+second+"/review", map[string]any{"event": "REJECTED", "reason": "INVALID_FORMAT"})
	require.Equal(t, templates.Synced{Updated: 2, Unchanged: 1}, b.sync(t, b.account))
	require.Equal(t, templates.Approved, b.all(t, b.account)["first en_US"].Status)
	rejected := b.all(t, b.account)["second en_US"]
	require.Equal(t, []any{templates.Rejected, "REJECTED", "INVALID_FORMAT"},
		[]any{rejected.Status, *rejected.ProviderStatus, *rejected.RejectionReason})

	b.Network.Control(t, "templates/"+first+"/review", map[string]any{"event": "PAUSED"})
	b.Network.Control(t, "templates/"+first+"/category", map[string]any{"new_category": "MARKETING"})
	b.Network.Control(t, "templates/"+first+"/quality", map[string]any{"new_quality_score": "RED"})
	require.Equal(t, templates.Synced{Updated: 1, Unchanged: 2}, b.sync(t, b.account))
	paused := b.all(t, b.account)["first en_US"]
	require.Equal(t, []any{templates.Rejected, "PAUSED", "MARKETING", "RED", made.ID},
		[]any{paused.Status, *paused.ProviderStatus, *paused.Category, *paused.Quality, paused.ID})

	require.NoError(t, b.Network.DeleteTemplate(ctx, owner(), "first", ""))
	require.Equal(t, templates.Synced{Unchanged: 1, Removed: 2}, b.sync(t, b.account))
	require.Len(t, b.all(t, b.account), 1)
	_, err := b.Templates.Find(ctx, b.org, b.account, "first", "")
	require.Equal(t, fault.NotFound("template"), err)
}

func TestSync_ThousandTemplates_AllPagesRead(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	for i := range 1000 {
		if i%100 == 0 {
			b.Clock.Move(time.Hour) // the provider accepts a hundred an hour
		}
		b.create(t, fmt.Sprintf("template_%04d", i), "en_US", "")
	}
	require.Equal(t, templates.Synced{Created: 1000}, b.sync(t, b.account))
	require.Equal(t, 5, b.Network.Calls(http.MethodGet, "/message_templates"), "by cursors")
	require.Len(t, b.all(t, b.account), 1000)
	require.Equal(t, templates.Synced{Unchanged: 1000}, b.sync(t, b.account))

	// A list that breaks off in the middle removes nothing.
	calls := 0
	b.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		if calls++; calls == 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		network.ServeHTTP(w, r)
	})
	_, err := b.Templates.Sync(t.Context(), b.org, b.account)
	require.Equal(t, fault.ProviderUpstreamError, fault.Of(err))
	require.Len(t, b.all(t, b.account), 1000)
	b.Network.Twist(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_, _ = w.Write([]byte(`{"data":[],"paging":{"cursors":{"after":"x"},"next":"https://x"}}`))
	})
	_, err = b.Templates.Sync(t.Context(), b.org, b.account)
	require.ErrorContains(t, err, "does not end")
	require.Len(t, b.all(t, b.account), 1000)
}

func TestSync_TwoNumbersOfOneBusinessAccount_RowsOfTheirOwn(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	other := b.connect(t, "100000000000056")
	id := b.create(t, "shared", "en_US", "")
	require.Equal(t, templates.Synced{Created: 1}, b.sync(t, b.account))
	require.Empty(t, b.all(t, other), "each has rows of its own")
	require.Equal(t, templates.Synced{Created: 1}, b.sync(t, other))
	mine, theirs := b.all(t, b.account)["shared en_US"], b.all(t, other)["shared en_US"]
	require.NotEqual(t, mine.ID, theirs.ID)
	require.Equal(t, []string{id, id}, []string{*mine.ProviderTemplateID, *theirs.ProviderTemplateID})

	b.notify(t, "message_template_status_update", id, `"event":"APPROVED","reason":"NONE"`, b.Clock.Now())
	for _, account := range []accounts.Account{b.account, other} {
		template, err := b.Templates.Find(ctx, b.org, account, "shared", "en_US")
		require.NoError(t, err)
		require.Equal(t, templates.Approved, template.Status, "a notification updates all of them")
	}
	_, err := b.Accounts.Disconnect(ctx, b.org, audit.Operator(), "100000000000056", nil)
	require.NoError(t, err)
	_, err = b.Templates.Sync(ctx, b.org, other)
	require.Equal(t, fault.NotFound("account"), err, "one that went meanwhile gets none")
	require.Len(t, b.all(t, b.account), 1)
}

// notify applies a callback about a template as the ingress does.
func (b fixture) notify(t testing.TB, field, id, value string, at time.Time) {
	t.Helper()
	ctx := t.Context()
	body := fmt.Sprintf(`{"object":"whatsapp_business_account","entry":[{"id":%q,"time":%d,"changes":[{"field":%q,"value":{
		"message_template_id":%s,"message_template_name":"shared","message_template_language":"en-US",%s}}]}]}`,
		business, at.Unix(), field, id, value)
	all, err := b.Network.Parse([]byte(body))
	require.NoError(t, err)
	require.Len(t, all, 1)
	_, err = postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) (bool, error) {
		handled, err := b.Templates.NotifiedTx(ctx, tx, all[0])
		require.True(t, handled)
		return handled, err
	})
	require.NoError(t, err)
}

func TestNotified_EachNotification_Applied(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	id := b.create(t, "shared", "en_US", "")
	b.sync(t, b.account)
	find := func() templates.Template {
		template, err := b.Templates.Find(ctx, b.org, b.account, "shared", "en_US")
		require.NoError(t, err)
		return template
	}
	for _, test := range []struct {
		event  string
		status templates.Status
		raw    string
	}{
		{"APPROVED", templates.Approved, "APPROVED"},
		{"PENDING", templates.Pending, "PENDING"},
		{"IN_APPEAL", templates.Pending, "IN_APPEAL"},
		{"REJECTED", templates.Rejected, "REJECTED"},
		{"PAUSED", templates.Rejected, "PAUSED"},
		{"REINSTATED", templates.Approved, "APPROVED"},
		{"DISABLED", templates.Rejected, "DISABLED"},
		{"FLAGGED", templates.Approved, "APPROVED"},
		{"ARCHIVED", templates.Rejected, "ARCHIVED"},
		{"UNARCHIVED", templates.Approved, "APPROVED"},
		{"DELETED", templates.Rejected, "DELETED"},
		{"PENDING_DELETION", templates.Rejected, "PENDING_DELETION"},
		{"LIMIT_EXCEEDED", templates.Rejected, "LIMIT_EXCEEDED"},
		{"LOCKED", templates.Approved, "APPROVED"},
		{"UNLOCKED", templates.Approved, "APPROVED"},
	} {
		b.Clock.Move(time.Minute)
		b.notify(t, "message_template_status_update", id, `"event":"`+test.event+`","reason":"ABUSIVE_CONTENT"`, b.Clock.Now())
		template := find()
		require.Equal(t, []any{test.status, test.raw}, []any{template.Status, *template.ProviderStatus}, test.event)
		require.Equal(t, test.status == templates.Rejected, template.RejectionReason != nil, test.event)
		require.Equal(t, b.Clock.Now(), template.UpdatedAt)
	}
	before := find()
	b.notify(t, "message_template_status_update", id, `"event":"REJECTED","reason":"SCAM"`, b.Clock.Now().Add(-time.Hour))
	require.Equal(t, before, find(), "what is older changes nothing")
	b.Clock.Move(time.Minute)
	b.notify(t, "message_template_quality_update", id, `"previous_quality_score":"GREEN","new_quality_score":"YELLOW"`, b.Clock.Now())
	require.Equal(t, "YELLOW", *find().Quality)
	b.notify(t, "template_category_update", id, `"new_category":"UTILITY","correct_category":"MARKETING","category_update_timestamp":1`, b.Clock.Now())
	require.Equal(t, "UTILITY", *find().Category, "only planned")
	b.notify(t, "template_category_update", id, `"previous_category":"UTILITY","new_category":"MARKETING"`, b.Clock.Now())
	require.Equal(t, "MARKETING", *find().Category)
	before = find()
	b.notify(t, "message_template_components_update", id, `"message_template_element":"New text"`, b.Clock.Now())
	require.Equal(t, before, find(), "it is read")
	require.Equal(t, templates.Synced{Updated: 1}, b.sync(t, b.account), "a sync overwrites notifications")
	require.Equal(t, templates.Pending, find().Status)
}

// A notification arrives while the templates are read from the provider.
func TestSync_NotificationDuringTheSync_IsKept(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	id := b.create(t, "shared", "en_US", "")
	b.sync(t, b.account)
	heard := false
	b.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		network.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/message_templates") && !heard {
			heard = true
			b.Clock.Move(time.Second)
			b.notify(t, "message_template_status_update", id, `"event":"APPROVED","reason":"NONE"`, b.Clock.Now())
		}
	})
	require.Equal(t, templates.Synced{Unchanged: 1}, b.sync(t, b.account))
	require.Equal(t, templates.Approved, b.all(t, b.account)["shared en_US"].Status)
}

func TestLookAfter_DueNumbers_OneJobEach(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	look := func() int {
		begun, err := b.Templates.LookAfter(ctx)
		require.NoError(t, err)
		return begun
	}
	id := b.create(t, "shared", "en_US", "")
	require.Equal(t, 1, look(), "a number that was never synced")
	require.Zero(t, look())
	b.Work(t)
	b.Wake(t)
	arrives := func(status templates.Status) {
		require.Eventually(t, func() bool { return b.all(t, b.account)["shared en_US"].Status == status }, 3*time.Minute, 20*time.Millisecond)
	}
	arrives(templates.Pending)
	b.Network.Control(t, "templates/"+id+"/review", map[string]any{"event": "APPROVED"})
	b.Clock.Move(time.Hour)
	require.Equal(t, 1, look(), "hourly")
	b.Wake(t)
	arrives(templates.Approved)
	b.Network.Control(t, "templates/"+id+"/review", map[string]any{"event": "PENDING"})
	require.Zero(t, look())
	b.notify(t, "message_template_components_update", "999", `"message_template_element":"x"`, b.Clock.Now())
	require.Equal(t, 1, look(), "by notification, of a template that is not known too")
	b.Wake(t)
	arrives(templates.Pending)
	b.Network.Control(t, "templates/"+id+"/review", map[string]any{"event": "APPROVED"})
	b.notify(t, "message_template_components_update", "999", `"message_template_element":"x"`, b.Clock.Now())
	_, err := b.Templates.Update(ctx, b.org, b.account, "shared", templates.Patch{
		Category: "UTILITY", Components: json.RawMessage(`[{"type":"BODY","text":"Hello again"}]`),
	})
	require.NoError(t, err)
	require.Equal(t, 1, look(), "a change of another template does not replace the sync")
}

func TestContentAndVariables_OfComponents(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	b.create(t, "shared", "en_US", `[
		{"type":"BODY","text":"Hi {{1}}, order {{2}} of {{1}} is on its way.","example":{"body_text":[["Ada","A-1"]]}},
		{"type":"BUTTONS","buttons":[{"type":"URL","text":"Track","url":"https://example.com/{{1}}","example":["A-1"]}]},
		{"type":"HEADER","format":"TEXT","text":"About {{1}} today","example":{"header_text":["it"]}}]`)
	b.sync(t, b.account)
	made := b.all(t, b.account)["shared en_US"]
	require.Equal(t, "Hi {{1}}, order {{2}} of {{1}} is on its way.", made.Content)
	require.Equal(t, []string{"1", "2"}, made.Variables)
}
