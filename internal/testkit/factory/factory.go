// Package factory creates rows with defaults for tests, by calling the services of the product.
package factory

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/network"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// World is a cell with a database of its own and a clock that tests move.
type World struct {
	*cell.Cell

	Clock     *clock.Manual
	Directory *directory.Directory
	// Network is the messaging network of all cells of the directory.
	Network *network.Network
	// Files is where all cells store the files of messages.
	Files *bucket.Bucket
	// FilesDir is the directory of Files.
	FilesDir string
	// Logger fails the test when it is given a secret.
	Logger *slog.Logger

	serial *atomic.Int64
}

const (
	// MediaURL is the start of the files' URLs.
	MediaURL = "https://media.example"
	// PublicURL is where people reach the pages behind setup links.
	PublicURL = "https://parley.example"
)

// New makes an empty world on a database of its own, its directory beside it.
func New(t testing.TB) *World {
	t.Helper()
	return On(t, pgtest.Open(t))
}

// On makes a world on a database that exists.
func On(t testing.TB, db *postgres.DB) *World {
	t.Helper()
	now := clock.NewManual(pgtest.Start())
	return In(t, directory.New(db, now), now, map[string]*postgres.DB{"test": db})["test"]
}

// In makes the cells of one directory, each on its database. Without master keys it uses the one
// of package canary.
func In(
	t testing.TB, routes *directory.Directory, now *clock.Manual, databases map[string]*postgres.DB, masters ...string,
) map[string]*World {
	t.Helper()
	if len(masters) == 0 {
		masters = []string{canary.Master}
	}
	ring, err := sealed.NewKeyring(masters)
	require.NoError(t, err)
	require.NoError(t, routes.EnsureCells(t.Context(), slices.Sorted(maps.Keys(databases))))
	posts, err := safehttp.New(safehttp.Config{
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, CAFile: receiver.CAFile(t),
	})
	require.NoError(t, err)
	t.Cleanup(posts.Close)
	dir := t.TempDir()
	files, err := bucket.Open("file://" + dir)
	require.NoError(t, err)
	worlds, serial, messaging, logger := map[string]*World{}, &atomic.Int64{}, network.New(t, now), canary.Logger(t)
	for name, db := range databases {
		made, err := cell.New(cell.Deps{
			Name: name, DB: db, Clock: now, Directory: routes, Ring: ring, Posts: posts, Provider: messaging,
			Logger: logger, Bucket: files, MediaURL: MediaURL, PublicURL: PublicURL,
		})
		require.NoError(t, err)
		worlds[name] = &World{Cell: made, Clock: now, Directory: routes, Network: messaging, Logger: logger, Files: files, FilesDir: dir, serial: serial}
	}
	return worlds
}

// Org makes an organization on the plan `platform` with one team.
func (w *World) Org(t testing.TB) (orgs.ID, orgs.TeamID) {
	t.Helper()
	org, team, err := w.Orgs.Create(t.Context(), audit.Operator(), orgs.Draft{
		Name: fmt.Sprintf("Organization %d", w.serial.Add(1)), Plan: "platform",
	})
	require.NoError(t, err)
	return org.OrgID, team.ID
}

// Key issues an API key.
func (w *World) Key(t testing.TB, org orgs.ID) (apikeys.ID, string) {
	t.Helper()
	key, plaintext, err := w.Keys.Issue(t.Context(), org, audit.Operator(), apikeys.Draft{Name: "test"})
	require.NoError(t, err)
	return key.ID, plaintext
}

// Label makes a label with a name of its own.
func (w *World) Label(t testing.TB, org orgs.ID) labels.Label {
	t.Helper()
	label, err := w.Labels.Create(t.Context(), org, labels.Draft{Name: fmt.Sprintf("Label %d", w.serial.Add(1))})
	require.NoError(t, err)
	return label
}

// Customer makes a pending customer with a name of its own.
func (w *World) Customer(t testing.TB, org orgs.ID) customers.Customer {
	t.Helper()
	customer, err := w.Customers.Create(t.Context(), org, customers.Draft{Name: fmt.Sprintf("Customer %d", w.serial.Add(1))})
	require.NoError(t, err)
	return customer
}

// Account attaches a connected number of its own to an organization.
func (w *World) Account(t testing.TB, org orgs.ID) accounts.Account {
	t.Helper()
	return w.AccountOf(t, org, nil)
}

// AccountOf is Account for a number of a customer.
func (w *World) AccountOf(t testing.TB, org orgs.ID, customer *customers.ID) accounts.Account {
	t.Helper()
	return w.Attach(t, org, fmt.Sprintf("1%014d", w.serial.Add(1)), customer)
}

// Attach attaches a connected number, of the organization itself when customer is nil.
func (w *World) Attach(t testing.TB, org orgs.ID, phoneNumberID string, customer *customers.ID) accounts.Account {
	t.Helper()
	n := w.serial.Add(1)
	account, err := w.Accounts.Attach(t.Context(), org, audit.Operator(), accounts.Draft{
		CustomerID: customer, BusinessAccountID: fmt.Sprintf("2%014d", n), PhoneNumberID: phoneNumberID, Token: network.Token(),
	}, provider.NumberState{
		Phone: fmt.Sprintf("+3512%08d", n), Name: fmt.Sprintf("Number %d", n), Status: provider.NumberConnected,
	}, w.Clock.Now())
	require.NoError(t, err)
	return account
}

// Contact makes a contact with a number and a name of its own.
func (w *World) Contact(t testing.TB, org orgs.ID, of accounts.Account) contacts.Contact {
	t.Helper()
	n := w.serial.Add(1)
	contact, err := w.Contacts.Create(t.Context(), org, of, contacts.Draft{
		PhoneNumber: new(fmt.Sprintf("+3519%08d", n)), Name: new(fmt.Sprintf("Contact %d", n)),
	})
	require.NoError(t, err)
	return contact
}

// Conversation makes a contact that wrote once.
func (w *World) Conversation(t testing.TB, org orgs.ID, of accounts.Account) conversations.Conversation {
	t.Helper()
	contact, now := w.Contact(t, org, of), w.Clock.Now()
	made, err := postgres.InTx(t.Context(), w.DB, org, func(tx *postgres.Tx) ([]conversations.Thread, error) {
		return w.Conversations.SaidTx(t.Context(), tx, of, []conversations.Message{{ContactID: contact.ID, At: now, Inbound: true}})
	})
	require.NoError(t, err)
	conversation, err := w.Conversations.Get(t.Context(), org, of, made[0].ID)
	require.NoError(t, err)
	return conversation
}
