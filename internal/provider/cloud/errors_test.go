package cloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/provider/cloud"
)

type expected struct {
	status int
	class  provider.Class
	code   fault.Code
}

// errorTable is the network's documented table, copied from its description and not from
// the adapter's.
var errorTable = map[int]expected{
	0:       {401, provider.AccountFault, provider.AuthExpired},
	1:       {400, provider.Retryable, fault.UpstreamError},
	2:       {503, provider.Retryable, fault.UpstreamError},
	3:       {500, provider.AccountFault, provider.PermissionRevoked},
	4:       {400, provider.RateLimited, provider.AppRateLimited},
	10:      {403, provider.AccountFault, provider.PermissionRevoked},
	33:      {400, provider.AccountFault, provider.PermissionRevoked},
	100:     {400, provider.Terminal, fault.UpstreamError},
	102:     {400, provider.AccountFault, provider.AuthExpired},
	190:     {401, provider.AccountFault, provider.AuthExpired},
	200:     {403, provider.AccountFault, provider.PermissionRevoked},
	294:     {403, provider.AccountFault, provider.PermissionRevoked},
	368:     {403, provider.AccountFault, fault.AccountRestricted},
	450:     {401, provider.AccountFault, provider.AuthExpired},
	452:     {401, provider.AccountFault, provider.AuthExpired},
	613:     {400, provider.RateLimited, provider.AppRateLimited},
	803:     {404, provider.Terminal, fault.UpstreamError},
	2500:    {401, provider.AccountFault, provider.AuthExpired},
	80007:   {400, provider.RateLimited, provider.AccountRateLimited},
	80008:   {400, provider.RateLimited, provider.AccountRateLimited},
	130429:  {400, provider.RateLimited, provider.AccountRateLimited},
	130472:  {400, provider.Terminal, provider.Undeliverable},
	130497:  {403, provider.Terminal, provider.PolicyViolation},
	131000:  {500, provider.Retryable, fault.UpstreamError},
	131005:  {403, provider.AccountFault, provider.PermissionRevoked},
	131008:  {400, provider.Terminal, fault.UpstreamError},
	131009:  {400, provider.Terminal, fault.UpstreamError},
	131014:  {400, provider.Retryable, provider.MediaUploadFailed},
	131016:  {500, provider.Retryable, fault.UpstreamError},
	131020:  {400, provider.Terminal, fault.UpstreamError},
	131021:  {400, provider.Terminal, provider.Undeliverable},
	131026:  {400, provider.Terminal, provider.RecipientUnavailable},
	131030:  {400, provider.Terminal, provider.RecipientUnavailable},
	131031:  {403, provider.AccountFault, provider.AccountLocked},
	131037:  {400, provider.AccountFault, fault.AccountRestricted},
	131041:  {400, provider.Terminal, fault.UpstreamError},
	131042:  {400, provider.AccountFault, fault.AccountRestricted},
	131044:  {400, provider.AccountFault, fault.AccountRestricted},
	131045:  {500, provider.AccountFault, fault.UpstreamError},
	131047:  {400, provider.Terminal, provider.OutsideWindow},
	131048:  {400, provider.RateLimited, provider.AccountRateLimited},
	131049:  {400, provider.Terminal, provider.Undeliverable},
	131050:  {400, provider.Terminal, provider.MarketingBlockedByUser},
	131051:  {400, provider.Terminal, provider.UnsupportedMessageType},
	131052:  {400, provider.Terminal, provider.MediaDownloadFailed},
	131053:  {400, provider.Terminal, provider.MediaUploadFailed},
	131055:  {400, provider.Terminal, provider.UnsupportedMessageType},
	131056:  {400, provider.RateLimited, provider.AccountRateLimited},
	131057:  {500, provider.Retryable, fault.UpstreamError},
	131059:  {400, provider.Terminal, fault.UpstreamError},
	131060:  {400, provider.Terminal, provider.UnsupportedMessageType},
	131062:  {400, provider.Terminal, provider.UnsupportedMessageType},
	131063:  {400, provider.AccountFault, fault.AccountRestricted},
	131064:  {400, provider.AccountFault, fault.AccountRestricted},
	131201:  {400, provider.Terminal, fault.UpstreamError},
	131215:  {400, provider.Terminal, fault.UpstreamError},
	132000:  {400, provider.Terminal, fault.UpstreamError},
	132001:  {404, provider.Terminal, provider.TemplateNotFound},
	132005:  {400, provider.Terminal, fault.UpstreamError},
	132007:  {400, provider.Terminal, provider.TemplatePolicyViolation},
	132008:  {400, provider.Terminal, fault.UpstreamError},
	132012:  {400, provider.Terminal, fault.UpstreamError},
	132015:  {400, provider.Terminal, provider.TemplatePaused},
	132016:  {400, provider.Terminal, provider.TemplatePaused},
	132018:  {400, provider.Terminal, fault.UpstreamError},
	132068:  {400, provider.Terminal, provider.FlowBlocked},
	132069:  {400, provider.RateLimited, provider.FlowBlocked},
	133000:  {500, provider.AccountFault, fault.RegistrationFailed},
	133004:  {503, provider.Retryable, fault.UpstreamError},
	133005:  {400, provider.Terminal, fault.RegistrationFailed},
	133006:  {400, provider.Terminal, fault.NumberNotVerified},
	133008:  {400, provider.RateLimited, fault.RegistrationFailed},
	133009:  {400, provider.RateLimited, fault.RegistrationFailed},
	133010:  {400, provider.AccountFault, fault.UpstreamError},
	133015:  {400, provider.RateLimited, fault.RegistrationFailed},
	133016:  {400, provider.RateLimited, fault.RegistrationFailed},
	134011:  {400, provider.AccountFault, fault.AccountRestricted},
	134100:  {400, provider.Terminal, fault.UpstreamError},
	134101:  {400, provider.Retryable, fault.UpstreamError},
	134102:  {500, provider.AccountFault, fault.UpstreamError},
	134103:  {500, provider.AccountFault, fault.UpstreamError},
	135000:  {400, provider.Terminal, fault.UpstreamError},
	137000:  {400, provider.Terminal, provider.RecipientUnavailable},
	138000:  {400, provider.Terminal, fault.UpstreamError},
	139000:  {400, provider.Terminal, fault.UpstreamError},
	139103:  {400, provider.Terminal, fault.UpstreamError},
	141002:  {400, provider.AccountFault, fault.AccountRestricted},
	141006:  {400, provider.AccountFault, fault.AccountRestricted},
	141014:  {400, provider.AccountFault, fault.AccountRestricted},
	147001:  {400, provider.Terminal, fault.UpstreamError},
	147005:  {400, provider.Terminal, fault.UpstreamError},
	2593107: {400, provider.Terminal, fault.UpstreamError},
	2593108: {400, provider.Terminal, fault.UpstreamError},
	2593109: {400, provider.Terminal, fault.UpstreamError},
}

// effects are the codes that say more than that a request failed.
var effects = map[int]provider.Effect{
	0: provider.EffectDisconnected, 190: provider.EffectDisconnected, 131045: provider.EffectDegraded, 133010: provider.EffectDegraded,
	131050: provider.EffectOptedOut,
}

func payload(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", "errors", name+".json"))
	require.NoError(t, err)
	return body
}

// answering is a client of a network that answers everything the same way.
func answering(t testing.TB, status int, header map[string]string, body []byte) *cloud.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	client, err := cloud.New(cloud.Config{
		BaseURL: server.URL, AppID: "2", AppSecrets: secrets("secret"), Clock: clock.NewManual(time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client
}

func send(t testing.TB, client *cloud.Client) (provider.Accepted, error) {
	t.Helper()
	return client.Send(t.Context(), provider.Number{ID: "1", Token: provider.NewToken("EAAcanarytoken")},
		provider.Outbound{To: "+15550100001", Type: "text", Content: json.RawMessage(`{"body":"x"}`)})
}

func failure(t testing.TB, err error) *provider.Error {
	t.Helper()
	failed, ok := provider.As(err)
	require.True(t, ok, "%v", err)
	return failed
}

func TestErrors_TheWholeTable(t *testing.T) {
	t.Parallel()
	parsing := parser(t)
	for code, want := range errorTable {
		body := payload(t, strconv.Itoa(code))
		_, err := send(t, answering(t, want.status, nil, body))
		failed := failure(t, err)
		require.Equal(t, want.class, failed.Class, code)
		require.Equal(t, want.code, failed.Code, code)
		require.Equal(t, provider.NotSent, failed.Delivery, code)
		require.Equal(t, code, *failed.ProviderCode)
		require.Equal(t, want.status, failed.HTTPStatus)
		require.Equal(t, effects[code], failed.Effect, code)
		require.Equal(t, want.class == provider.RateLimited, failed.Limit != "", "%d says whom it slows down", code)
		require.NotContains(t, failed.Title, "(#", "the code stands in its own field")
		require.NotEmpty(t, failed.Words())

		status := fmt.Sprintf(`{"entry":[{"id":"4","changes":[{"field":"messages","value":{"statuses":[
			{"id":"w","status":"failed","errors":[{"code":%d,"title":"T","error_data":{"details":"D"}}]}]}}]}]}`, code)
		called, err := parsing.Parse([]byte(status))
		require.NoError(t, err)
		reported := called[0].Item.(provider.Status).Errors[0]
		require.Equal(t, want.class, reported.Class, "%d in a callback", code)
		require.Equal(t, want.code, reported.Code, "%d in a callback", code)
		require.Equal(t, "D", reported.Words())
	}
}

func TestErrors_EveryFileIsInTheTable(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/errors/*.json")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if code, err := strconv.Atoi(name); err == nil {
			require.Contains(t, errorTable, code)
		}
	}
}

func TestErrors_OfTemplates(t *testing.T) {
	t.Parallel()
	components := json.RawMessage(`[{"type":"header","format":"TEXT","text":"h"},{"type":"BODY","text":"b"},{"type":"FOOTER","text":"f"},{"type":"BUTTONS"}]`)
	for subcode, want := range map[int]struct {
		code  fault.Code
		param string
	}{
		2388019: {fault.LimitReached, "name"},
		2388023: {fault.InvalidFieldValue, "name"},
		2388024: {fault.AlreadyExists, "name"},
		2388040: {fault.InvalidFieldValue, "components"},
		2388047: {fault.InvalidFieldValue, "components[0]"},
		2388050: {fault.InvalidFieldValue, "components[3]"},
		2388072: {fault.InvalidFieldValue, "components[1]"},
		2388073: {fault.InvalidFieldValue, "components[2]"},
		2388109: {fault.InvalidFieldValue, "components"},
		2388153: {fault.InvalidFieldValue, "components[3]"},
		2388293: {fault.InvalidFieldValue, "components[1]"},
		2388299: {fault.InvalidFieldValue, "components[1]"},
	} {
		client := answering(t, http.StatusBadRequest, nil, payload(t, fmt.Sprintf("subcode_%d", subcode)))
		owner := provider.BusinessAccount{ID: "4", Token: provider.NewToken("t")}
		_, err := client.CreateTemplate(t.Context(), owner, provider.TemplateDraft{Name: "n", Components: components})
		created := failure(t, err)
		edited := failure(t, client.EditTemplate(t.Context(), owner, "5", provider.TemplateEdit{Components: components}))
		for _, failed := range []*provider.Error{created, edited} {
			require.Equal(t, provider.Terminal, failed.Class, subcode)
			require.Equal(t, want.code, failed.Code, subcode)
			require.Equal(t, want.param, failed.Param, subcode)
			require.Equal(t, subcode, failed.Subcode)
			require.True(t, strings.HasSuffix(failed.Words(), "."), "the words for people: %s", failed.Words())
		}
	}
}

func TestErrors_AMissingObject(t *testing.T) {
	t.Parallel()
	client := answering(t, http.StatusBadRequest, nil, payload(t, "missing"))
	_, err := client.FetchNumber(t.Context(), provider.Number{ID: "1"})
	require.True(t, failure(t, err).Missing)
}

func TestErrors_HowLongToWait(t *testing.T) {
	t.Parallel()
	limited := []byte(`{"error":{"code":80007,"message":"x"}}`)
	for name, test := range map[string]struct {
		header map[string]string
		body   []byte
		want   time.Duration
	}{
		"seconds":     {map[string]string{"Retry-After": "30"}, limited, 30 * time.Second},
		"a date":      {map[string]string{"Retry-After": "Sun, 15 Nov 2026 10:01:00 GMT"}, limited, time.Minute},
		"the past":    {map[string]string{"Retry-After": "Sun, 15 Nov 2020 10:01:00 GMT"}, limited, 0},
		"nonsense":    {map[string]string{"Retry-After": "soon"}, limited, 0},
		"minutes":     {map[string]string{"X-Business-Use-Case-Usage": `{"4":[{"call_count":100,"estimated_time_to_regain_access":7}]}`}, limited, 7 * time.Minute},
		"the longer":  {map[string]string{"Retry-After": "1", "X-Business-Use-Case-Usage": `{"4":[{"estimated_time_to_regain_access":"2"}]}`}, limited, 2 * time.Minute},
		"broken":      {map[string]string{"X-Business-Use-Case-Usage": `{"4":[7]}`}, limited, 0},
		"bounded":     {map[string]string{"Retry-After": "99999999"}, limited, 24 * time.Hour},
		"documented":  {nil, []byte(`{"error":{"code":133015}}`), 5 * time.Minute},
		"no envelope": {map[string]string{"Retry-After": "30"}, []byte("slow down"), 30 * time.Second},
	} {
		_, err := send(t, answering(t, http.StatusTooManyRequests, test.header, test.body))
		require.Equal(t, test.want, failure(t, err).RetryAfter, name)
	}
}
