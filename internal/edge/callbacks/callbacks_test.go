package callbacks_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	edge "github.com/parley-chat/parley/internal/edge/callbacks"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

func TestChallenge_RightToken_Echoed(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	right := url.Values{"hub.mode": {"subscribe"}, "hub.challenge": {"1158201444"}, "hub.verify_token": {canary.VerifyToken}}
	for name, one := range map[string]struct {
		change url.Values
		status int
		answer string
	}{
		"right":           {nil, 200, "1158201444"},
		"a wrong token":   {url.Values{"hub.verify_token": {"guess"}}, 403, ""},
		"no token":        {url.Values{"hub.verify_token": {}}, 403, ""},
		"another mode":    {url.Values{"hub.mode": {"unsubscribe"}}, 403, ""},
		"no challenge":    {url.Values{"hub.challenge": {}}, 403, ""},
		"markup is text":  {url.Values{"hub.challenge": {"<script>"}}, 200, "<script>"},
		"a long question": {url.Values{"hub.challenge": {strings.Repeat("1", 5000)}}, 403, ""},
	} {
		query := maps.Clone(right)
		maps.Copy(query, one.change)
		answer := httptest.NewRecorder()
		s.ingress.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, edge.Path+"?"+query.Encode(), nil))
		require.Equal(t, one.status, answer.Code, name)
		require.Equal(t, "text/plain; charset=utf-8", answer.Header().Get("Content-Type"), name)
		require.Equal(t, "nosniff", answer.Header().Get("X-Content-Type-Options"), name)
		if one.status == http.StatusOK {
			require.Equal(t, one.answer, words(answer), name)
		}
	}
}

func TestIngress_WrongSignature_Refused(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	org, _ := s.Org(t)
	account := s.Account(t, org)
	genuine := body(t, statuses(account.BusinessAccountID, *account.PhoneNumberID, "wamid.1"))
	right := sign(genuine, canary.AppSecret)
	digits := strings.TrimPrefix(right, "sha256=")
	forged := map[string][]string{
		"none": nil, "an empty one": {""}, "only the name": {"sha256="}, "two": {right, right}, "without its name": {digits},
		"another digest's name": {"sha1=" + digits[:40]}, "name in upper case": {"SHA256=" + digits}, "digits in upper case": {strings.ToUpper(right)},
		"one digit less": {right[:len(right)-1]}, "one digit more": {right + "0"}, "a blank after": {right + " "}, "a blank before": {" " + right},
		"named twice": {"sha256=" + right}, "two in one": {right + "," + right}, "another secret": {sign(genuine, "guess")},
		"an empty secret": {sign(genuine, "")}, "of no body": {sign(nil, canary.AppSecret)},
		"of another body":        {sign(append([]byte(" "), genuine...), canary.AppSecret)},
		"of a body printed anew": {sign(bytes.ReplaceAll(genuine, []byte(":"), []byte(": ")), canary.AppSecret)},
		"last digit altered":     {right[:len(right)-1] + string("0123456789abcdef"[(strings.IndexByte("0123456789abcdef", right[len(right)-1])+1)%16])},
		"no digits":              {"sha256=" + strings.Repeat("z", 64)}, "zeros": {"sha256=" + strings.Repeat("0", 64)},
		"the verify token": {sign(genuine, canary.VerifyToken)},
	}
	require.GreaterOrEqual(t, len(forged), 20)
	for name, signatures := range forged {
		answer := s.pushSigned(t, genuine, signatures...)
		require.Equal(t, http.StatusUnauthorized, answer.Code, name)
	}
	altered := bytes.Replace(genuine, []byte("delivered"), []byte("read     "), 1)
	require.Equal(t, http.StatusUnauthorized, s.pushSigned(t, altered, right).Code, "another body under a genuine signature")
	require.Zero(t, s.kept(t, "callbacks"))
	require.Empty(t, s.quarantined(t))
	require.Equal(t, http.StatusOK, s.push(t, genuine).Code)
	require.Equal(t, 1, s.kept(t, "callbacks"))
}

func TestIngress_MethodAndSize(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		answer := httptest.NewRecorder()
		s.ingress.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, edge.Path, nil))
		require.Equal(t, http.StatusMethodNotAllowed, answer.Code)
		require.Equal(t, "GET, POST", answer.Header().Get("Allow"))
	}
	large := bytes.Repeat([]byte(" "), 4<<20+1)
	require.Equal(t, http.StatusRequestEntityTooLarge, s.push(t, large).Code)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, edge.Path, io.NopCloser(bytes.NewReader(large)))
	request.ContentLength = -1
	answer := httptest.NewRecorder()
	s.ingress.ServeHTTP(answer, request)
	require.Equal(t, http.StatusRequestEntityTooLarge, answer.Code, "also without its length")
	require.Equal(t, http.StatusOK, s.push(t, large[:4<<20]).Code, "malformed, but of the right size")
}

// TestIngress_MalformedBody_Quarantined: the signature is right, so the provider sent it and will not
// send it again.
func TestIngress_MalformedBody_Quarantined(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	const count = 1_000
	random := rand.New(rand.NewPCG(1, 2))
	for n := range count {
		broken := malformed(random, n)
		answer := s.push(t, broken)
		require.Equal(t, http.StatusOK, answer.Code, "%q", broken)
	}
	kept := map[string]int{}
	for _, one := range s.quarantined(t) {
		kept[one.Reason]++
	}
	require.GreaterOrEqual(t, len(s.quarantined(t)), count, "%v", kept)
	require.Zero(t, s.kept(t, "callbacks"))
}

// malformed is a body that names no number of an organization.
func malformed(random *rand.Rand, n int) []byte {
	whole := fmt.Sprintf(`{"object":"whatsapp_business_account","entry":[{"id":"9%d","changes":[{"field":"messages","value":{"messaging_product":`+
		`"whatsapp","metadata":{"phone_number_id":"8%d"},"statuses":[{"id":"x","status":"sent"}]}}]}]}`, n, n)
	wrong := []string{
		`null`, `[]`, `{}`, `""`, `1`, `{"entry":null}`, `{"entry":{}}`, `{"entry":[null]}`, `{"entry":[[]]}`, `{"entry":[{"changes":{}}]}`,
		`{"entry":[{"id":7,"changes":[{"field":1,"value":2}]}]}`, `{"entry":[{"changes":[{"field":"messages","value":{"metadata":{"phone_number_id":[]}}}]}]}`,
		`{"entry":[{"id":"\u0000","changes":[{"field":"\u0000","value":{}}]}]}`,
		`{"entry":[{"id":"1","changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"\u0000"},"messages":[{}]}}]}]}`,
		`{"entry":[{"id":"\ud800","changes":[{"field":"account_update","value":{"event":"\ud800"}}]}]}`,
		`{"entry":[{"id":"` + strings.Repeat("9", 5_000) + `","changes":[{"field":"account_update","value":{}}]}]}`,
		strings.Repeat("[", 10_000), strings.Repeat(`{"entry":`, 5_000), "\xff\xfe{}", "\x00", "", " ", "{\"a\":1}{\"b\":2}", "\ufeff{}",
	}
	switch n % 3 {
	case 0:
		return []byte(wrong[n/3%len(wrong)])
	case 1:
		return []byte(whole[:random.IntN(len(whole))])
	default:
		noisy := []byte(whole)
		for range 1 + random.IntN(8) {
			noisy[random.IntN(len(noisy))] = byte(random.IntN(256))
		}
		return noisy
	}
}

// TestIngress_SeveralAddresses_EachGetsItsPart pushes one body with numbers of two cells, a business
// account, and addresses that no organization has.
func TestIngress_SeveralAddresses_EachGetsItsPart(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.Work(t)
	s.other.Work(t)
	here, _ := s.Org(t)
	there, _ := s.other.Org(t)
	mine, theirs := s.Account(t, here), s.other.Account(t, there)
	unknown := statuses("29", "19", "wamid.unknown")
	answer := s.push(t, body(t,
		statuses(mine.BusinessAccountID, *mine.PhoneNumberID, "wamid.1", "wamid.2"),
		statuses(theirs.BusinessAccountID, *theirs.PhoneNumberID, "wamid.3"),
		unknown,
		statuses(mine.BusinessAccountID, *mine.PhoneNumberID, "wamid.4"),
		change(theirs.BusinessAccountID, "account_update", map[string]any{"event": "VERIFIED_ACCOUNT"}),
		change("28", "account_update", map[string]any{"event": "VERIFIED_ACCOUNT"}),
	))
	require.Equal(t, http.StatusOK, answer.Code, words(answer))
	s.await(t, "all of it is applied", func() bool {
		return s.count(here, "wamid.1") == 1 && s.count(here, "wamid.2") == 1 && s.count(here, "wamid.4") == 1 && s.count(there, "wamid.3") == 1
	})
	require.Zero(t, s.count(here, "wamid.3")+s.count(there, "wamid.1"), "an organization gets only its own items")
	parked := s.quarantined(t)
	require.Len(t, parked, 2)
	require.ElementsMatch(t, []string{"unknown_number", "unknown_account"}, []string{parked[0].Reason, parked[1].Reason})
	require.Equal(t, 3, s.kept(t, "callbacks"), "one for each number and one for the account")

	// A part that came when its number was connected, and was quarantined all the same, is applied.
	require.NoError(t, s.Directory.Quarantine(t.Context(), directory.Quarantined{
		Reason: "unknown_number", Body: body(t, statuses(mine.BusinessAccountID, *mine.PhoneNumberID, "wamid.late")),
	}))
	stored, declined, err := s.ingress.Reprocess(t.Context(), s.quarantined(t))
	require.NoError(t, err)
	require.Equal(t, 1, stored)
	require.ElementsMatch(t, []edge.Declined{
		{ID: parked[0].ID, Reasons: []string{parked[0].Reason}}, {ID: parked[1].ID, Reasons: []string{parked[1].Reason}},
	}, declined)
	s.await(t, "the quarantined part is applied", func() bool { return s.count(here, "wamid.late") == 1 })
	require.Len(t, s.quarantined(t), 2, "the others still have no owner")
}

// TestApply_PoisonItems_OnlyTheyAreDead pushes 1,000 items of which 10 fail.
func TestApply_PoisonItems_OnlyTheyAreDead(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.Work(t)
	org, _ := s.Org(t)
	account := s.Account(t, org)
	const count, bad = 1_000, 100
	messages := make([]string, count)
	for i := range messages {
		messages[i] = fmt.Sprintf("wamid.%d", i)
		s.poison[messages[i]] = i%bad == 7
	}
	pushed := body(t, statuses(account.BusinessAccountID, *account.PhoneNumberID, messages...))
	// A busy machine may take longer than the ingress waits; the provider pushes again.
	require.Eventually(t, func() bool { return s.push(t, pushed).Code == http.StatusOK }, 3*time.Minute, 10*time.Millisecond)
	applied := func(want int) func() bool {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.applied) >= want
		}
	}
	s.await(t, "the other items are applied", applied(count-count/bad))
	s.await(t, "the failing items are dead", func() bool { return len(s.aside(t, callbacks.Dead)) == count/bad })
	require.Len(t, s.applied, count-count/bad)
	for _, item := range s.aside(t, callbacks.Dead) {
		require.Contains(t, item.Reason, "is poison")
		require.Equal(t, *account.PhoneNumberID, *item.PhoneNumberID)
		require.Equal(t, "messages", item.Field)
	}

	s.mu.Lock()
	clear(s.poison)
	s.mu.Unlock()
	again, err := s.Callbacks.Reprocess(t.Context(), audit.Operator(), callbacks.Filter{State: callbacks.Dead})
	require.NoError(t, err)
	require.Equal(t, count/bad, again)
	s.await(t, "the dead items are applied", applied(count))
	require.Empty(t, s.aside(t, callbacks.Dead))
	for message, times := range s.applied {
		require.Equal(t, 1, times, message)
	}
}

func TestApply_NoConsumer_ItemWaitsUnhandled(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.Work(t)
	org, _ := s.Org(t)
	account := s.Account(t, org)
	strange := change(account.BusinessAccountID, "calls", map[string]any{
		"metadata": map[string]any{"phone_number_id": *account.PhoneNumberID}, "calls": []any{map[string]any{"id": "wacid.1"}},
	})
	require.Equal(t, http.StatusOK, s.push(t, body(t, strange)).Code)
	s.await(t, "it is unhandled", func() bool { return len(s.aside(t, callbacks.Unhandled)) == 1 })
	again, err := s.Callbacks.Reprocess(t.Context(), audit.Operator(), callbacks.Filter{State: callbacks.Unhandled})
	require.NoError(t, err)
	require.Equal(t, 1, again)
	s.await(t, "it is unhandled again", func() bool { return len(s.aside(t, callbacks.Unhandled)) == 1 })
}

func TestIngress_FrozenOrganization_Unavailable(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	org, _ := s.Org(t)
	account := s.Account(t, org)
	one := body(t, statuses(account.BusinessAccountID, *account.PhoneNumberID, "wamid.1"))
	freeze := func(at *time.Time) {
		_, err := postgres.InFirstTx(t.Context(), s.DB, org, func(tx *postgres.Tx) (int64, error) {
			return tx.Exec(t.Context(), `UPDATE organizations SET frozen_at = @at WHERE org_id = @org_id`, postgres.Args{"at": at})
		})
		require.NoError(t, err)
	}
	freeze(new(s.Clock.Now()))
	answer := s.push(t, one)
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Equal(t, "5", answer.Header().Get("Retry-After"))
	require.Zero(t, s.kept(t, "callbacks"))
	require.Empty(t, s.quarantined(t))
	freeze(nil)
	require.Equal(t, http.StatusOK, s.push(t, one).Code)
	require.Equal(t, 1, s.kept(t, "callbacks"))
}

func TestIngress_DisconnectedNumber_QuarantinedThenNewOwner(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	here, _ := s.Org(t)
	there, _ := s.other.Org(t)
	account := s.Account(t, here)
	one := body(t, statuses(account.BusinessAccountID, *account.PhoneNumberID, "wamid.1"))
	require.Equal(t, http.StatusOK, s.push(t, one).Code)
	require.Equal(t, 1, s.kept(t, "callbacks"))
	_, err := s.Accounts.Disconnect(t.Context(), here, audit.Operator(), *account.PhoneNumberID, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, s.push(t, one).Code)
	require.Len(t, s.quarantined(t), 1)
	s.other.Attach(t, there, *account.PhoneNumberID, nil)
	require.Equal(t, http.StatusOK, s.push(t, one).Code)
	require.Len(t, s.quarantined(t), 1)
	require.NoError(t, s.Callbacks.PurgeStored(t.Context(), here, account, ids.Any{}))
	require.Equal(t, 1, s.kept(t, "callbacks"), "the new owner has its copy")
}

// What was quarantined while nobody had the number may be what people wrote to its former owner: whoever connects the
// number later does not get it.
func TestReprocess_NumberConnectedLater_StaysInQuarantine(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	here, _ := s.Org(t)
	there, _ := s.other.Org(t)
	account := s.Account(t, here)
	_, err := s.Accounts.Disconnect(t.Context(), here, audit.Operator(), *account.PhoneNumberID, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, s.push(t, body(t, statuses(account.BusinessAccountID, *account.PhoneNumberID, "wamid.1"),
		change(account.BusinessAccountID, "account_update", map[string]any{"event": "VERIFIED_ACCOUNT"}))).Code)
	arrived := s.quarantined(t)
	require.Len(t, arrived, 2)
	s.Clock.Move(time.Millisecond)
	s.other.Attach(t, there, *account.PhoneNumberID, nil)
	s.Clock.Move(time.Hour)
	for range 2 {
		parked := s.quarantined(t)
		require.Len(t, parked, 2)
		require.Equal(t, arrived[0].ID.CreatedAt(), parked[0].ID.CreatedAt(), "they keep the time at which they came")
		stored, declined, err := s.ingress.Reprocess(t.Context(), parked)
		require.NoError(t, err)
		require.Zero(t, stored)
		require.Len(t, declined, 2)
		require.ElementsMatch(t, []string{"connected_later", "unknown_account"}, slices.Concat(declined[0].Reasons, declined[1].Reasons))
	}
	require.Zero(t, s.kept(t, "callbacks"))
}
