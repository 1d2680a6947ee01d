package accounts_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// gone waits until no row of an account is left.
func (b fixture) gone(t testing.TB, account accounts.Account) {
	t.Helper()
	b.Pass(t, time.Minute)
	require.Eventually(t, func() bool {
		b.Wake(t)
		left, err := postgres.One[int64](t.Context(), b.DB.Of(b.org),
			`SELECT count(*) FROM accounts WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": account.ID})
		require.NoError(t, err)
		return left == 0
	}, 3*time.Minute, 20*time.Millisecond, "account %s was not purged", account.ID)
}

// TestPurge_Account_NoRowLeft plants markers in everything that an account can have, in two
// accounts, disconnects one and searches every table for its markers.
func TestPurge_Account_NoRowLeft(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	_, err := b.Webhooks.Create(ctx, b.org, audit.Operator(), webhooks.Draft{URL: "https://example.com/hook", Events: events.Catalogue()})
	require.NoError(t, err)
	doomed, kept := b.plant(t, "71"), b.plant(t, "72")
	for _, marker := range doomed.markers {
		require.NotEmpty(t, b.find(t, marker), "%s is nowhere: nothing is tested", marker)
	}
	before := map[string][]string{}
	for _, marker := range kept.markers {
		before[marker] = b.find(t, marker)
	}
	gone, err := b.Accounts.Disconnect(ctx, b.org, audit.Operator(), *doomed.PhoneNumberID, nil)
	require.NoError(t, err)
	require.Equal(t, accounts.Disconnected, gone.Status)
	_, err = b.Accounts.Disconnect(ctx, b.org, audit.Operator(), *doomed.PhoneNumberID, nil)
	require.Equal(t, fault.NotFound("account"), err, "a second time")
	b.Work(t)
	b.gone(t, doomed.Account)
	for _, marker := range doomed.markers {
		require.Empty(t, b.find(t, marker), marker)
	}
	// The number itself stays in the directory, so that its generation never repeats.
	require.Equal(t, []string{"directory.routes"}, b.find(t, *doomed.PhoneNumberID))
	for _, marker := range kept.markers {
		require.Equal(t, before[marker], b.find(t, marker), "%s of another account", marker)
	}
	require.Equal(t, 1, b.Network.Calls(http.MethodDelete, doomed.BusinessAccountID+"/subscribed_apps"))
	require.Zero(t, b.Network.Calls(http.MethodDelete, kept.BusinessAccountID+"/subscribed_apps"))
}

// TestPurge_RowCommittedLate_DeletedToo: something that was under way when the number was let go
// may be committed after the job has looked.
func TestPurge_RowCommittedLate_DeletedToo(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	account := b.connect(t, nil)
	purged := make(chan struct{}, 1)
	b.Accounts.OnPurge(func(context.Context, orgs.ID, accounts.Account, ids.Any) error {
		select {
		case purged <- struct{}{}:
		default:
		}
		return nil
	})
	b.Work(t)
	_, err := b.Accounts.Disconnect(ctx, b.org, audit.Operator(), number, nil)
	require.NoError(t, err)
	<-purged
	_, err = b.Contacts.Create(ctx, b.org, account, contacts.Draft{PhoneNumber: new("+351910000073"), Name: new("marker-stray")})
	require.NoError(t, err)
	b.gone(t, account)
	require.Empty(t, b.find(t, "marker-stray"))
}

type planted struct {
	accounts.Account

	markers []string
}

func (b fixture) plant(t testing.TB, serial string) planted {
	t.Helper()
	ctx, business, number := t.Context(), "4000000000000"+serial, "1000000000000"+serial
	phone, name, token := "+3512100000"+serial, "marker-name-"+serial, "marker-token-"+serial
	b.Network.Number(t, business, number, map[string]any{"display_phone_number": phone, "verified_name": name})
	b.Network.Control(t, "tokens", map[string]any{"access_token": token})
	account, err := b.Accounts.Connect(ctx, b.org, audit.Operator(), accounts.Draft{
		BusinessAccountID: business, PhoneNumberID: number, Token: provider.NewToken(token),
	})
	require.NoError(t, err)
	_, err = b.Contacts.Create(ctx, b.org, account, contacts.Draft{PhoneNumber: new("+3519100000" + serial), Name: new("marker-contact-" + serial)})
	require.NoError(t, err)
	_, err = b.Network.CreateTemplate(ctx, provider.BusinessAccount{ID: business, Token: provider.NewToken(token)}, provider.TemplateDraft{
		Name: "marker_template_" + serial, Language: "en_US", Category: "UTILITY",
		Components: json.RawMessage(`[{"type":"BODY","text":"marker-body-` + serial + `"}]`),
	})
	require.NoError(t, err)
	_, err = b.Templates.Sync(ctx, b.org, account)
	require.NoError(t, err)
	return planted{Account: account, markers: []string{
		"marker_template_" + serial, "marker-body-" + serial,
		phone, name, business, account.ID.String(), "marker-contact-" + serial, "+3519100000" + serial,
	}}
}

// Tables that may contain the id of a purged account: the audit log, and finished jobs for two
// minutes. Both contain only its internal id.
var mayName = map[string]bool{"public.audit_log": true, "river.river_job": true}

// find lists the tables that contain a text, also as the bytes of a bytea.
func (b fixture) find(t testing.TB, text string) []string {
	t.Helper()
	tables, err := postgres.Many[string](t.Context(), b.DB.System("test"), `
		SELECT format('%I.%I', n.nspname, c.relname)
		FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname IN ('public', 'directory', 'river')
		  AND c.relkind IN ('r', 'p')
		  AND NOT c.relispartition
		ORDER BY 1`, nil)
	require.NoError(t, err)
	require.Greater(t, len(tables), 25)
	found := []string{}
	for _, table := range tables {
		count, err := postgres.One[int64](t.Context(), b.DB.System("test"),
			`SELECT count(*) FROM `+table+` AS x WHERE strpos(x::text, @text) > 0 OR strpos(x::text, @bytes) > 0`,
			postgres.Args{"text": text, "bytes": hex.EncodeToString([]byte(text))})
		require.NoError(t, err, table)
		if count > 0 && !(mayName[table] && strings.Count(text, "-") == 4) {
			found = append(found, table)
		}
	}
	return found
}

// TestDisconnect_LastNumber_BusinessAccountUnsubscribed leaves a business account subscribed as long as
// anybody has a number of it, and does not insist.
func TestDisconnect_LastNumber_BusinessAccountUnsubscribed(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	b.Work(t)
	other := fixture{World: b.World}
	other.org, other.team = b.Org(t)
	attach := func(b fixture, number string) accounts.Account {
		b.Network.Number(t, business, number, nil)
		given := draft()
		given.PhoneNumberID = number
		account, err := b.Accounts.Connect(ctx, b.org, audit.Operator(), given)
		require.NoError(t, err)
		return account
	}
	disconnect := func(b fixture, account accounts.Account) {
		_, err := b.Accounts.Disconnect(ctx, b.org, audit.Operator(), *account.PhoneNumberID, nil)
		require.NoError(t, err)
		b.gone(t, account)
	}
	first, second, third := attach(b, "100000000000081"), attach(b, "100000000000082"), attach(other, "100000000000083")
	disconnect(b, first)
	require.Zero(t, b.Network.Calls(http.MethodDelete, "/subscribed_apps"), "the organization has another number of it")
	disconnect(b, second)
	require.Zero(t, b.Network.Calls(http.MethodDelete, "/subscribed_apps"), "another organization has")
	b.Network.Twist(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	disconnect(other, third)
	require.Equal(t, 1, b.Network.Calls(http.MethodDelete, "/subscribed_apps"))
}

// TestDisconnect_JobLost_PurgedWhenDue purges what a job did not: one that got lost, or an account that
// came with its organization from another cell.
func TestDisconnect_JobLost_PurgedWhenDue(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	account := b.connect(t, nil)
	_, err := b.Accounts.Disconnect(ctx, b.org, audit.Operator(), number, nil)
	require.NoError(t, err)
	_, err = postgres.InSystemTx(ctx, b.DB, "test", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, `DELETE FROM `+jobs.Table, nil)
	})
	require.NoError(t, err)
	b.Work(t)
	b.Clock.Move(time.Hour)
	begun, err := b.Accounts.LookAfter(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, begun)
	b.Wake(t)
	b.gone(t, account)
}

// side is an organization and its cell.
type side struct {
	*factory.World

	org orgs.ID
}

// TestHandOver_NumberChangesHands_NotificationsReachTheOwner disconnects a number and connects it in another organization of another
// cell, again and again, while notifications for it come in: each reaches who has it.
func TestHandOver_NumberChangesHands_NotificationsReachTheOwner(t *testing.T) {
	t.Parallel()
	ctx, now := t.Context(), clock.NewManual(pgtest.Start())
	first, second := pgtest.Open(t), pgtest.Open(t)
	worlds := factory.In(t, directory.New(first, now), now, map[string]*postgres.DB{"amber": first, "birch": second})
	h := &handOver{sides: []side{{World: worlds["amber"]}, {World: worlds["birch"]}}, owners: map[int64]orgs.ID{}}
	for i := range h.sides {
		h.sides[i].org, _ = h.sides[i].Org(t)
	}
	worlds["amber"].Network.Number(t, business, number, nil)
	require.NoError(t, h.connect(ctx, h.sides[0]))
	// Each follower has a cache of routes of its own, as other processes would.
	followers := []*directory.Directory{worlds["amber"].Directory, directory.New(first, now), directory.New(first, now)}
	rounds := proof.Sized(60, 200)
	for round := range rounds {
		from, to := h.sides[round%2], h.sides[(round+1)%2]
		var group errgroup.Group
		group.Go(func() error {
			for {
				jitter()
				if _, err := from.Accounts.Disconnect(ctx, from.org, audit.Operator(), number, nil); fault.Of(err) != fault.ServiceUnavailable {
					return err
				}
			}
		})
		group.Go(func() error {
			for {
				jitter()
				err := h.connect(ctx, to)
				if code := fault.Of(err); code != fault.AlreadyExists && code != fault.ServiceUnavailable {
					return err
				}
			}
		})
		for _, routes := range followers {
			group.Go(func() error {
				jitter()
				return h.deliver(ctx, routes, fmt.Sprint("in round ", round))
			})
		}
		require.NoError(t, group.Wait())
		now.Move(2 * time.Second)
		name := fmt.Sprint("after round ", round)
		for _, routes := range followers {
			require.NoError(t, h.deliver(ctx, routes, name))
		}
		account, err := to.Accounts.Find(ctx, to.org, number)
		require.NoError(t, err)
		require.Equal(t, name, *account.Name, "the current owner gets the notification")
		_, err = from.Accounts.Find(ctx, from.org, number)
		require.Equal(t, fault.ResourceNotFound, fault.Of(err))
		now.Move(2 * time.Second)
	}
	require.Empty(t, h.wrong)
	require.NotZero(t, h.reread, "no old route was followed: nothing was tested")
	t.Logf("%d rounds, %d followed an old route, %d found nobody", rounds, h.reread, h.nobody)
}

type handOver struct {
	sides []side

	mu             sync.Mutex
	owners         map[int64]orgs.ID
	wrong          []string
	reread, nobody int
}

func (h *handOver) connect(ctx context.Context, to side) error {
	account, err := to.Accounts.Connect(ctx, to.org, audit.Operator(), draft())
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owners[account.Generation] = to.org
	return nil
}

func jitter() { time.Sleep(rand.N(2 * time.Millisecond)) }

// deliver applies a notification to the owner of the number, as the ingress does.
func (h *handOver) deliver(ctx context.Context, routes *directory.Directory, name string) error {
	route, err := routes.Find(ctx, directory.PhoneNumber, []byte(number))
	for try := 0; try < 2 && err == nil; try++ {
		if try > 0 {
			route, err = routes.Reread(ctx, directory.PhoneNumber, []byte(number))
			if err != nil {
				break
			}
		}
		held, err := h.apply(ctx, route, name)
		if err != nil {
			return err
		}
		if held {
			h.mu.Lock()
			h.reread += try
			h.mu.Unlock()
			return nil
		}
	}
	if err != nil && !errors.Is(err, directory.ErrUnknown) {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nobody++
	return nil
}

func (h *handOver) apply(ctx context.Context, route directory.Route, name string) (bool, error) {
	of := h.sides[0]
	if route.OrgID != of.org {
		of = h.sides[1]
	}
	// The ingress stores a callback in a transaction that holds the number, and applies it in a later one.
	held, err := postgres.InTx(ctx, of.DB, route.OrgID, func(tx *postgres.Tx) (bool, error) {
		_, held, err := of.Accounts.HoldTx(ctx, tx, number, route.Generation)
		return held, err
	})
	if err != nil || !held {
		return false, err
	}
	return postgres.InTx(ctx, of.DB, route.OrgID, func(tx *postgres.Tx) (bool, error) {
		_, err := of.Accounts.NotifiedTx(ctx, tx, provider.Notification{
			BusinessAccountID: business, NumberID: number, At: of.Clock.Now().Add(time.Second),
			Item: provider.NumberName{Approved: true, Name: name},
		})
		tx.AfterCommit(func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if owner, known := h.owners[route.Generation]; known && owner != route.OrgID {
				h.wrong = append(h.wrong, fmt.Sprintf("generation %d of %s went to %s", route.Generation, owner, route.OrgID))
			}
		})
		return true, err
	})
}
