package webhooks_test

import (
	"bytes"
	"encoding/hex"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/signature"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// mint adds a secret. The current secrets expire in the given seconds; negative: they do not.
func (s *fixture) mint(t *testing.T, expire int64) webhooks.Secret {
	t.Helper()
	s.Pass(t, time.Millisecond) // the newest secret is newer
	draft := webhooks.SecretDraft{}
	if expire >= 0 {
		draft.ExpireCurrentIn = &expire
	}
	minted, err := s.Webhooks.MintSecret(t.Context(), s.org, audit.Operator(), s.Subscription.ID, draft)
	require.NoError(t, err)
	return minted
}

func (s *fixture) revoke(t *testing.T, id webhooks.SecretID) error {
	t.Helper()
	_, err := s.Webhooks.RevokeSecret(t.Context(), s.org, audit.Operator(), s.Subscription.ID, id)
	return err
}

// requireSigned makes an event and checks that its request is signed by these secrets,
// each with one v1, by no other, and that the newest signs the body alone.
func (s *fixture) requireSigned(t *testing.T, secrets ...string) {
	t.Helper()
	delivery := s.await(t, s.Customer(t, s.org), webhooks.Succeeded, 1)
	requests := s.receiver.Requests()
	request := requests[len(requests)-1]
	require.Equal(t, delivery.ID.String(), request.DeliveryID())
	require.Equal(t, signature.Sign(s.Clock.Now(), request.Body, secrets...), request.Header.Get(signature.Header))
	require.Len(t, signatures(request), len(secrets))
	require.Equal(t, signature.Sign256(request.Body, secrets[len(secrets)-1]), request.Header.Get(signature.Header256))
}

func TestSecrets_RotationAndExpiry(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	first := s.InitialSecret
	s.requireSigned(t, first)
	second := s.mint(t, -1)
	require.Nil(t, second.ExpiresAt)
	s.requireSigned(t, first, second.Plaintext)
	third := s.mint(t, 60)
	s.requireSigned(t, first, second.Plaintext, third.Plaintext)
	s.Pass(t, 60*time.Second-time.Millisecond)
	s.requireSigned(t, first, second.Plaintext, third.Plaintext)
	require.Len(t, s.subscription(t).Secrets, 3)
	s.Pass(t, time.Millisecond)
	s.requireSigned(t, third.Plaintext)
	require.Len(t, s.subscription(t).Secrets, 1, "expired ones are not listed")
	require.Equal(t, fault.CannotRevokeLastSecret, fault.Of(s.revoke(t, third.ID)), "expired ones do not count as remaining")
	require.Equal(t, fault.ResourceNotFound, fault.Of(s.revoke(t, second.ID)), "expired is gone")

	fourth := s.mint(t, 0)
	kept, err := postgres.One[int](t.Context(), s.DB.Of(s.org), `SELECT count(*) FROM webhook_secrets WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	require.Equal(t, 2, kept, "minting deletes those that expired before")
	s.requireSigned(t, fourth.Plaintext)
	fifth := s.mint(t, 100)
	sixth := s.mint(t, 1000) // does not lengthen what was shorter
	s.Pass(t, 100*time.Second)
	s.requireSigned(t, fifth.Plaintext, sixth.Plaintext)
	require.NoError(t, s.revoke(t, fifth.ID))
	s.requireSigned(t, sixth.Plaintext)
}

// Each attempt is signed by the secrets that are active then, with the time of the attempt.
func TestSecrets_EachAttemptIsSignedAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(receiver.Sequence(receiver.Answer{Status: 500}, receiver.Answer{Status: 500}, receiver.Answer{}))
	customer := s.Customer(t, s.org)
	delivery := s.await(t, customer, webhooks.Failed, 1)
	second := s.mint(t, -1)
	s.until(t, *delivery.NextAttemptAt)
	delivery = s.await(t, customer, webhooks.Failed, 2)
	require.NoError(t, s.revoke(t, s.Subscription.Secrets[0].ID))
	s.until(t, *delivery.NextAttemptAt)
	s.await(t, customer, webhooks.Succeeded, 3)
	detail, err := s.Webhooks.Delivery(t.Context(), s.org, delivery.ID)
	require.NoError(t, err)
	for i, secrets := range [][]string{{s.InitialSecret}, {s.InitialSecret, second.Plaintext}, {second.Plaintext}} {
		request := s.receiver.Requests()[i]
		require.Equal(t, signature.Sign(detail.Attempts[i].ID.CreatedAt(), request.Body, secrets...), request.Header.Get(signature.Header))
	}
}

// Events that are recorded after a revocation was answered are signed by the other secrets
// only. Every request verifies with a secret of its time.
func TestSecrets_RotatedUnderLoad_EachRequestVerifies(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	secrets, current := []string{s.InitialSecret}, s.Subscription.Secrets[0].ID
	revokedBy := map[string]int{} // the customer's name: how many secrets were revoked before its event
	for round := range 6 {
		for range 15 {
			revokedBy[s.Customer(t, s.org).ID.String()] = round
		}
		minted := s.mint(t, -1)
		for range 15 {
			revokedBy[s.Customer(t, s.org).ID.String()] = round
		}
		require.NoError(t, s.revoke(t, current))
		secrets, current = append(secrets, minted.Plaintext), minted.ID
	}
	s.awaitCount(t, webhooks.Succeeded, 180)
	for _, request := range s.receiver.Requests() {
		round := revokedBy[customerOf(t, request).ID]
		header := request.Header.Get(signature.Header)
		for i, secret := range secrets {
			err := signature.Verify(header, request.Body, []string{secret}, s.Clock.Now(), signature.Tolerance)
			if i < round {
				require.Error(t, err, "signed by a secret that was revoked before the event")
			}
		}
		require.NoError(t, signature.Verify(header, request.Body, secrets, s.Clock.Now(), signature.Tolerance))
		require.LessOrEqual(t, len(signatures(request)), 2)
	}
}

func TestSecrets_AtMostFive(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	for range 4 {
		s.mint(t, -1)
	}
	_, err := s.Webhooks.MintSecret(t.Context(), s.org, audit.Operator(), s.Subscription.ID, webhooks.SecretDraft{})
	require.Equal(t, fault.LimitReached, fault.Of(err))
	require.NoError(t, s.revoke(t, s.Subscription.Secrets[0].ID))
	s.mint(t, 1)
	s.Clock.Move(time.Second)
	for range 4 {
		s.mint(t, -1) // expired ones take no room
	}
	require.Len(t, s.subscription(t).Secrets, 5)
}

func TestSecrets_AtMostFive_MintedConcurrently(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	var group sync.WaitGroup
	for range 12 {
		group.Go(func() {
			_, _ = s.Webhooks.MintSecret(t.Context(), s.org, audit.Operator(), s.Subscription.ID, webhooks.SecretDraft{})
		})
	}
	group.Wait()
	secrets := s.subscription(t).Secrets
	require.Len(t, secrets, 5)
	for _, secret := range secrets {
		group.Go(func() {
			_, _ = s.Webhooks.RevokeSecret(t.Context(), s.org, audit.Operator(), s.Subscription.ID, secret.ID)
		})
	}
	group.Wait()
	require.Len(t, s.subscription(t).Secrets, 1, "one always remains")
}

func TestSecrets_NoPlaintextInTablesOrLog(t *testing.T) {
	t.Parallel()
	var log safeBuffer
	s := newFixtureWith(t, canary.Logger(t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), safehttp.Config{})
	s.receiver.Answer(receiver.Sequence(receiver.Answer{Status: 500}, receiver.Answer{Status: 410}))
	secrets := []string{s.InitialSecret, s.mint(t, -1).Plaintext, s.mint(t, 100).Plaintext}
	s.customers(t, 2)
	require.Eventually(t, func() bool { return s.subscription(t).Status == webhooks.Disabled }, patience, tick)
	require.Contains(t, log.String(), "webhook.disabled", "the log is seen")
	dump, tables := s.dump(t)
	require.Greater(t, tables, 10)
	require.Contains(t, dump, s.receiver.URL, "the dump shows what is there")
	for _, secret := range secrets {
		require.NotContains(t, dump, secret)
		require.NotContains(t, log.String(), secret)
		require.NotContains(t, dump, hex.EncodeToString([]byte(secret)), "nor as bytes")
	}
}

// dump returns the text of every row of every table.
func (s *fixture) dump(t *testing.T) (text string, tables int) {
	t.Helper()
	system := s.DB.System("look for secrets")
	names, err := postgres.Many[string](t.Context(), system, `
SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname IN ('public', 'river', 'directory')`, nil)
	require.NoError(t, err)
	var all strings.Builder
	for _, name := range names {
		rows, err := postgres.Many[string](t.Context(), system, `SELECT t::text FROM `+name+` t`, nil)
		require.NoError(t, err)
		for _, row := range rows {
			all.WriteString(row + "\n")
		}
	}
	return all.String(), len(names)
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(line)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newFixtureWith makes a fixture with its own logger and settings of the HTTP client.
func newFixtureWith(t *testing.T, logger *slog.Logger, config safehttp.Config) *fixture {
	t.Helper()
	s := &fixture{World: factory.New(t), receiver: receiver.New(t)}
	ring, err := sealed.NewKeyring([]string{canary.Master})
	require.NoError(t, err)
	config.AllowNetworks, config.CAFile = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, receiver.CAFile(t)
	posts, err := safehttp.New(config)
	require.NoError(t, err)
	t.Cleanup(posts.Close)
	s.Cell, err = cell.New(cell.Deps{
		Name: "test", DB: s.DB, Clock: s.Clock, Directory: s.Directory, Ring: ring, Posts: posts, Logger: logger,
	})
	require.NoError(t, err)
	s.org, _ = s.World.Org(t)
	s.Subscription = s.subscribe(t, webhooks.Draft{})
	s.Work(t)
	return s
}

func TestSecrets_RevokeLastWithoutEnd_Refused(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	lasting := s.mint(t, 3600) // the initial one expires in an hour
	initial := s.subscription(t).Secrets[0]
	require.NotNil(t, initial.ExpiresAt)
	require.Equal(t, fault.CannotRevokeLastSecret, fault.Of(s.revoke(t, lasting.ID)), "in an hour nothing would sign")
	require.NoError(t, s.revoke(t, initial.ID))
	another := s.mint(t, -1)
	require.NoError(t, s.revoke(t, lasting.ID))
	require.Equal(t, fault.CannotRevokeLastSecret, fault.Of(s.revoke(t, another.ID)))
}
