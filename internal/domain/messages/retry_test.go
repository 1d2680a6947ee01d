package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// execSystem changes rows that belong to no organization.
func (s *fixture) execSystem(t *testing.T, sql string, args postgres.Args) {
	t.Helper()
	_, err := postgres.InSystemTx(t.Context(), s.DB, "test", func(tx *postgres.Tx) (int64, error) { return tx.Exec(t.Context(), sql, args) })
	require.NoError(t, err)
}

func TestRetry_TransientFailure_After1And2And4And8Minutes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 131000)))
	made := s.sendDraft(t, messages.Draft{To: "+351910000001", ClientReference: "order 7"})
	s.awaitCalls(t, made, 1)
	for i, step := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute} {
		s.Pass(t, step*9/10-time.Second)
		s.barrier(t)
		require.Len(t, s.net.calls("+351910000001"), i+1, "earlier than a tenth before %s", step)
		require.Equal(t, messages.Pending, s.get(t, made).Status)
		s.Pass(t, step/5+time.Second)
		s.awaitCalls(t, made, i+2)
	}
	failed := s.awaitStatus(t, made, messages.Failed)
	require.Equal(t, fault.UpstreamError, *failed.ErrorCode)
	require.Equal(t, 131000, *failed.ProviderCode)
	require.True(t, failed.Synthesized)
	require.Len(t, s.attempts(t, made), 5)
	require.Equal(t, []string{"own failed"}, s.told(t, made))
	for _, one := range s.events(t) {
		if one.Key == made.ID.String() {
			require.Equal(t, 131000, one.status(t).Errors[0].Code)
			require.Equal(t, "order 7", *one.status(t).Reference)
		}
	}
}

func TestSend_TerminalCode_FailedAtOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 131047)))
	made := s.send(t, "+351910000001")
	failed := s.awaitStatus(t, made, messages.Failed)
	require.Equal(t, provider.OutsideWindow, *failed.ErrorCode)
	require.Equal(t, 131047, *failed.ProviderCode)
	require.Equal(t, []string{"1 refused 131047"}, s.attempts(t, made))
	require.Equal(t, []string{"own failed"}, s.told(t, made))
}

func TestSend_Effects_ContactAndAccount(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 131050)))
	made := s.send(t, "+351910000001")
	s.awaitStatus(t, made, messages.Failed)
	contact, err := s.Contacts.Get(t.Context(), s.org, s.account, made.ContactID)
	require.NoError(t, err)
	require.Equal(t, contacts.OptedOut, contact.Marketing)
	for code, status := range map[int]accounts.Status{190: accounts.Disconnected, 0: accounts.Disconnected, 133010: accounts.Degraded} {
		of := s.beside(t)
		of.net.answers(refuses(s.failure(t, code)))
		of.awaitStatus(t, of.send(t, "+351910000002"), messages.Failed)
		account, err := s.Accounts.Get(t.Context(), of.org, of.account.ID)
		require.NoError(t, err)
		require.Equal(t, status, account.Status, "%d", code)
	}
}

func TestSend_PairLimit_OnlyThatContactWaits(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 131056)))
	limited := s.send(t, "+351910000001")
	s.awaitCalls(t, limited, 1)
	s.net.answers(nil)
	next := s.send(t, "+351910000001")
	s.barrier(t)
	require.Equal(t, messages.Queued, s.get(t, next).Status, "the contact waits 4^0 seconds")
	s.Pass(t, time.Second)
	s.awaitStatus(t, next, messages.Sent)
	require.Equal(t, messages.Pending, s.get(t, limited).Status)
	s.Pass(t, 67*time.Second)
	s.awaitStatus(t, limited, messages.Sent)
}

func TestSend_NumberLimit_OnlyItsLaneWaits(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 130429)))
	limited := s.send(t, "+351910000001")
	s.awaitCalls(t, limited, 1)
	s.net.answers(nil)
	next := s.send(t, "+351910000002")
	sibling := *s
	sibling.account = s.Account(t, s.org)
	sibling.barrier(t)
	require.Equal(t, messages.Queued, s.get(t, next).Status)
	s.Pass(t, 6*time.Second)
	s.awaitStatus(t, next, messages.Sent)
	s.Pass(t, 67*time.Second)
	s.awaitStatus(t, limited, messages.Sent)
}

func TestSend_LongCoolDown_WaitingMessagesFail(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 131048)))
	limited := s.send(t, "+351910000001")
	s.awaitCalls(t, limited, 1)
	next := s.send(t, "+351910000002")
	failed := s.awaitStatus(t, next, messages.Failed)
	require.Equal(t, provider.AccountRateLimited, *failed.ErrorCode)
	require.Nil(t, failed.ProviderCode)
	require.Empty(t, s.net.calls("+351910000002"))
	require.Equal(t, []string{"own failed"}, s.told(t, next))
	for _, one := range s.events(t) {
		require.Equal(t, -1, one.status(t).Errors[0].Code)
	}
}

// TestSend_RefusedAtDispatch_FailedWithEvent changes what may change between the acceptance of a
// message and its dispatch.
func TestSend_RefusedAtDispatch_FailedWithEvent(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	const marketing = `UPDATE messages SET type = 'template', category = 'MARKETING' WHERE org_id = @org_id`
	type refused struct {
		*fixture
		code fault.Code
		made messages.Message
	}
	cases := map[string]*refused{}
	for _, test := range []struct {
		name, sql string
		code      fault.Code
		marketing bool
	}{
		{"suspended", `UPDATE organizations SET suspended_at = now() WHERE org_id = @org_id`, fault.OrganizationSuspended, false},
		{"lapsed", `UPDATE organizations SET subscription_status = 'inactive' WHERE org_id = @org_id`, fault.SubscriptionInactive, false},
		{"customer", `UPDATE customers SET status = 'suspended' WHERE org_id = @org_id`, fault.CustomerSuspended, false},
		{"disconnected", `UPDATE accounts SET status = 'disconnected' WHERE org_id = @org_id`, fault.UpstreamError, false},
		{"restricted", `UPDATE accounts SET provider_status = 'RESTRICTED' WHERE org_id = @org_id`, fault.AccountRestricted, false},
		{"not verified", `UPDATE accounts SET provider_status = 'PENDING' WHERE org_id = @org_id`, fault.NumberNotVerified, false},
		{"opted out", `UPDATE contacts SET marketing = 'opted_out' WHERE org_id = @org_id`, fault.MarketingOptedOut, true},
		{"consent", `UPDATE organizations SET require_opt_in = true WHERE org_id = @org_id`, fault.ConsentRequired, true},
	} {
		of := s.beside(t)
		if test.name == "customer" {
			customer := s.Customer(t, of.org)
			of.account = s.AccountOf(t, of.org, &customer.ID)
		}
		one := &refused{fixture: of, code: test.code, made: of.send(t, "+351910000009")}
		if test.marketing {
			of.exec(t, marketing, nil)
		}
		of.exec(t, test.sql, nil)
		cases[test.name] = one
	}
	s.Work(t)
	for name, one := range cases {
		failed := one.awaitStatus(t, one.made, messages.Failed)
		require.Equal(t, one.code, *failed.ErrorCode, name)
		require.True(t, failed.Synthesized, name)
		require.Equal(t, []string{"1 not_called"}, one.attempts(t, one.made), name)
		require.Equal(t, []string{"own failed"}, one.told(t, one.made), name)
	}
	require.Empty(t, s.net.calls("+351910000009"))
}
