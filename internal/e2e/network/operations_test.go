package network_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/simulator"
)

// file is an upload. Its Open can be called more than once.
func file(name, mime string, content []byte) provider.File {
	return provider.File{Name: name, MIMEType: mime, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}}
}

func picture() provider.File {
	return file(`a "b".png`, "image/png", bytes.Repeat([]byte("png"), 40_000))
}

func TestMedia_UploadAndDownload(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx := t.Context()
	content := bytes.Repeat([]byte("png"), 40_000)
	id, err := f.client.UploadMedia(ctx, f.number, picture())
	require.NoError(t, err)
	found, err := f.client.FindMedia(ctx, f.number, id)
	require.NoError(t, err)
	sum := sha256.Sum256(content)
	require.Equal(t, sum[:], found.SHA256)
	require.EqualValues(t, len(content), found.Size)
	require.Equal(t, "image/png", found.MIMEType)
	opened, err := f.client.DownloadMedia(ctx, f.number, found.URL)
	require.NoError(t, err)
	got, err := io.ReadAll(opened.Body)
	require.NoError(t, err)
	require.NoError(t, opened.Body.Close())
	require.True(t, bytes.Equal(content, got))
	require.Equal(t, "image/png", opened.MIMEType)
	require.EqualValues(t, len(content), opened.Size)

	_, err = f.client.FindMedia(ctx, provider.Number{ID: "100000000000099", Token: f.number.Token}, id)
	require.True(t, refused(t, err).Missing, "another number's file")
	f.sim("clock", object{"advance_seconds": 600})
	_, err = f.client.DownloadMedia(ctx, f.number, found.URL)
	failed := refused(t, err)
	require.True(t, failed.Missing, "the address has expired: look it up again")
	require.Equal(t, provider.MediaDownloadFailed, failed.Code)
	require.NoError(t, f.client.DeleteMedia(ctx, f.number, id))
	_, err = f.client.FindMedia(ctx, f.number, id)
	require.True(t, refused(t, err).Missing)

	_, err = f.client.UploadMedia(ctx, f.number, file("a.exe", "application/x-msdownload", content))
	require.Equal(t, provider.Terminal, refused(t, err).Class)
	_, err = f.client.UploadMedia(ctx, f.number, file("a.png", "image/png", make([]byte, 6<<20)))
	require.Equal(t, provider.MediaUploadFailed, refused(t, err).Code)
	_, err = f.client.UploadMedia(ctx, f.number, provider.File{})
	require.Equal(t, provider.NotSent, refused(t, err).Delivery)
}

func TestMedia_OfInboundMessage_IsDownloaded(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, inbound := writes(f, ada, object{"type": "image", "image": object{"data": "aGVsbG8=", "mime_type": "image/png", "caption": "look"}})
	require.NotNil(t, inbound.Media)
	require.Equal(t, "look", inbound.Media.Caption)
	opened, err := f.client.DownloadMedia(t.Context(), f.number, inbound.Media.URL)
	require.NoError(t, err)
	got, err := io.ReadAll(opened.Body)
	require.NoError(t, err)
	require.NoError(t, opened.Body.Close())
	require.Equal(t, "hello", string(got))
	sum := sha256.Sum256(got)
	require.Equal(t, sum[:], inbound.Media.SHA256, "base64 here, hex when it is looked up")
	found, err := f.client.FindMedia(t.Context(), f.number, inbound.Media.ID)
	require.NoError(t, err)
	require.Equal(t, sum[:], found.SHA256)
}

func TestTemplates_CreateEditDelete(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx := t.Context()
	handle, err := f.client.UploadExample(ctx, f.owner.Token, picture())
	require.NoError(t, err)
	components := json.RawMessage(`[{"type":"HEADER","format":"IMAGE","example":{"header_handle":["` + handle + `"]}},{"type":"BODY","text":"New in our shop"}]`)
	created, err := f.client.CreateTemplate(ctx, f.owner, provider.TemplateDraft{
		Name: "novelties", Language: "en_US", Category: "MARKETING", Components: components, ParameterFormat: "positional",
	})
	require.NoError(t, err)
	require.NotEmpty(t, created.ID)
	require.Equal(t, "PENDING", created.Status)
	notification, status := next(f, func(status provider.TemplateStatus) bool { return status.Template.ID == created.ID })
	require.Equal(t, provider.TemplateRef{ID: created.ID, Name: "novelties", Language: "en_US"}, status.Template)
	require.Equal(t, provider.ReviewApproved, status.Review)
	require.Equal(t, f.owner.ID, notification.BusinessAccountID)
	require.Empty(t, notification.NumberID)

	listed := map[string]provider.Template{}
	query := provider.TemplateQuery{Limit: 2}
	for pages := 0; ; pages++ {
		page, err := f.client.ListTemplates(ctx, f.owner, query)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Templates), 2)
		for _, one := range page.Templates {
			require.NotContains(t, listed, one.ID, "no template twice")
			listed[one.ID] = one
		}
		if query.After = page.Next; query.After == "" {
			require.Greater(t, pages, 2)
			break
		}
	}
	fetched, err := f.client.FetchTemplate(ctx, f.owner, created.ID)
	require.NoError(t, err)
	require.Equal(t, listed[created.ID].Name, fetched.Name)
	require.Equal(t, provider.ReviewApproved, fetched.Review)
	require.JSONEq(t, string(components), string(fetched.Components))

	require.NoError(t, f.client.EditTemplate(ctx, f.owner, created.ID, provider.TemplateEdit{Components: json.RawMessage(`[{"type":"BODY","text":"Newer"}]`)}))
	next(f, func(status provider.TemplateStatus) bool { return status.Template.ID == created.ID })
	require.NoError(t, f.client.DeleteTemplate(ctx, f.owner, "novelties", created.ID))
	_, err = f.client.FetchTemplate(ctx, f.owner, created.ID)
	require.True(t, refused(t, err).Missing)
}

func TestTemplates_Refused_NameTheField(t *testing.T) {
	t.Parallel()
	f := start(t)
	for name, test := range map[string]struct {
		draft provider.TemplateDraft
		code  fault.Code
		param string
	}{
		"exists": {provider.TemplateDraft{
			Name: "hello_world", Language: "en_US", Category: "UTILITY", Components: json.RawMessage(`[{"type":"BODY","text":"x y z"}]`),
		}, fault.AlreadyExists, "name"},
		"body": {provider.TemplateDraft{
			Name: "a", Language: "en_US", Category: "UTILITY",
			Components: json.RawMessage(`[{"type":"HEADER","format":"TEXT","text":"h"},{"type":"BODY","text":"{{1}}","example":{"body_text":[["x"]]}}]`),
		}, fault.InvalidFieldValue, "components[1]"},
		"nothing": {provider.TemplateDraft{Name: "a", Language: "en_US", Category: "UTILITY"}, fault.UpstreamError, ""},
	} {
		_, err := f.client.CreateTemplate(t.Context(), f.owner, test.draft)
		failed := refused(t, err)
		require.Equal(t, provider.Terminal, failed.Class, name)
		require.Equal(t, test.code, failed.Code, "%s: %v", name, err)
		require.Equal(t, test.param, failed.Param, name)
		require.NotEmpty(t, failed.Words())
	}
}

func TestNumbers_FetchRegisterDeregister(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx := t.Context()
	state, err := f.client.FetchNumber(ctx, f.number)
	require.NoError(t, err)
	require.Equal(t, "+15550199001", state.Phone)
	require.Equal(t, "+1 555-019-9001", state.Display)
	require.Equal(t, provider.NumberConnected, state.Status)
	require.Equal(t, "Parley Demo", state.Name)
	require.True(t, state.Verified)
	require.False(t, state.Coexistence)
	for range 3 {
		f.sim("numbers", object{"status": "PENDING"})
	}
	listed, err := f.client.ListNumbers(ctx, f.owner)
	require.NoError(t, err)
	require.Len(t, listed, 4)
	pending := provider.Number{ID: listed[3].ID, Token: f.number.Token}
	require.Equal(t, provider.NumberPending, listed[3].Status)

	for pin, want := range map[string]fault.Code{
		"133005": fault.RegistrationFailed, "133006": fault.NumberNotVerified, "133008": fault.RegistrationFailed,
		"133009": fault.RegistrationFailed, "133015": fault.RegistrationFailed, "133016": fault.RegistrationFailed,
		"133000": fault.RegistrationFailed, "133004": fault.ProviderUpstreamError, "12": fault.RegistrationFailed,
	} {
		err := f.client.Register(ctx, pending, provider.NewPIN(pin))
		refused(t, err)
		require.Equal(t, want, fault.Of(provider.RegistrationFault(err)), "%s: %v", pin, err)
	}
	require.NoError(t, f.client.Register(ctx, pending, provider.NewPIN("918273")))
	state, err = f.client.FetchNumber(ctx, pending)
	require.NoError(t, err)
	require.Equal(t, provider.NumberConnected, state.Status)
	require.NoError(t, f.client.Deregister(ctx, pending))
	failed := refused(t, f.client.Deregister(ctx, pending))
	require.Equal(t, provider.EffectDegraded, failed.Effect)
	_, err = f.client.Send(ctx, pending, provider.Outbound{To: ada, Type: "text", Content: text("x")})
	require.Equal(t, provider.EffectDegraded, refused(t, err).Effect, "a number that is not registered")
}

func TestNumbers_OfThePhoneApp_SyncContactsAndHistory(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx := t.Context()
	number := provider.Number{ID: f.sim("numbers", object{"coexistence": true, "status": "CONNECTED"})["id"].(string), Token: f.number.Token}
	state, err := f.client.FetchNumber(ctx, number)
	require.NoError(t, err)
	require.True(t, state.Coexistence)
	require.NoError(t, f.client.SyncPhoneApp(ctx, number, provider.PhoneAppContacts))
	notification, _ := next(f, func(provider.PhoneAppContact) bool { return true })
	require.Equal(t, number.ID, notification.NumberID)
	require.NoError(t, f.client.SyncPhoneApp(ctx, number, provider.PhoneAppHistory))
	_, history := next(f, func(provider.History) bool { return true })
	require.NotEmpty(t, history.Threads)
	require.NotEmpty(t, history.Threads[0].Messages)
	require.Equal(t, 2593107, *refused(t, f.client.SyncPhoneApp(ctx, number, provider.PhoneAppHistory)).ProviderCode)
	require.Equal(t, provider.Terminal, refused(t, f.client.Deregister(ctx, number)).Class)
}

func TestSignup_GivesTokenAndNumbers(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx := t.Context()
	dialog, err := url.Parse(f.client.SignupURL(provider.SignupDialog{RedirectURL: "https://parley.example/back", State: "st", Coexistence: true}))
	require.NoError(t, err)
	require.Equal(t, simulator.DefaultAppID, dialog.Query().Get("client_id"))
	require.Equal(t, "st", dialog.Query().Get("state"))

	code := f.sim("signup", object{"business_name": "Bakery"})["code"].(string)
	rotating := f.adapter(oldSecret, appSecret)
	grant, err := rotating.ExchangeCode(ctx, provider.SignupCode{Code: code})
	require.NoError(t, err, "the second secret is tried when the first is not valid yet")
	require.True(t, grant.ExpiresAt.IsZero())
	_, err = f.client.ExchangeCode(ctx, provider.SignupCode{Code: code})
	require.Equal(t, provider.Terminal, refused(t, err).Class, "a code works once")
	for _, client := range []interface{ provider.Signup }{f.client, rotating} {
		state, err := client.InspectToken(ctx, grant.Token)
		require.NoError(t, err)
		require.True(t, state.Valid)
		require.True(t, state.CanSend)
		require.True(t, state.CanManage)
		require.Len(t, state.BusinessAccounts, 1)
	}
	state, err := f.client.InspectToken(ctx, provider.NewToken("canary-unknown"))
	require.NoError(t, err)
	require.False(t, state.Valid)

	inspected, err := f.client.InspectToken(ctx, grant.Token)
	require.NoError(t, err)
	owner := provider.BusinessAccount{ID: inspected.BusinessAccounts[0], Token: grant.Token}
	next(f, func(update provider.AccountUpdate) bool { return update.Change == provider.AccountAdded })
	numbers, err := f.client.ListNumbers(ctx, owner)
	require.NoError(t, err)
	require.Len(t, numbers, 1)
	for range 2 {
		require.NoError(t, f.client.Subscribe(ctx, owner), "repeating it is harmless")
	}
	subscribed, err := f.client.Subscribed(ctx, owner)
	require.NoError(t, err)
	require.True(t, subscribed)
	require.NoError(t, f.client.Unsubscribe(ctx, owner))
	subscribed, err = f.client.Subscribed(ctx, owner)
	require.NoError(t, err)
	require.False(t, subscribed)
	require.NoError(t, f.client.CheckApp(ctx))
	require.Error(t, f.adapter(oldSecret).CheckApp(ctx))
}

func TestSignup_WithoutApp_Fails(t *testing.T) {
	t.Parallel()
	f := start(t)
	bare := f.adapter()
	_, err := bare.ExchangeCode(t.Context(), provider.SignupCode{Code: "x"})
	require.Contains(t, refused(t, err).Details, "PARLEY_PROVIDER_APP_SECRET")
	_, err = bare.UploadExample(t.Context(), f.owner.Token, picture())
	require.Contains(t, refused(t, err).Details, "PARLEY_PROVIDER_APP_ID")
}
