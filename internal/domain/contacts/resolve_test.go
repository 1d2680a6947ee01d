package contacts_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/histories"
)

// fixture is a cell with one organization and its number.
type fixture struct {
	*factory.World

	org     orgs.ID
	team    orgs.TeamID
	account accounts.Account
}

func setup(t *testing.T) (context.Context, fixture) {
	t.Helper()
	b := fixture{World: factory.New(t)}
	b.org, b.team = b.Org(t)
	b.account = b.Account(t, b.org)
	return t.Context(), b
}

func (b fixture) resolve(t testing.TB, sightings ...contacts.Sighting) []contacts.Contact {
	t.Helper()
	found, err := b.tryResolve(t.Context(), sightings...)
	require.NoError(t, err)
	return found
}

func (b fixture) tryResolve(ctx context.Context, sightings ...contacts.Sighting) ([]contacts.Contact, error) {
	return postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) ([]contacts.Contact, error) {
		return b.Contacts.ResolveTx(ctx, tx, b.account, sightings)
	})
}

// count returns the number of histories of a test: all in a proof, some otherwise.
func count(some, all int) int {
	if os.Getenv("PARLEY_PROOF") == "full" {
		return all
	}
	return some
}

// row is the row of a contact, also of one that was merged or erased.
type row struct {
	ID          contacts.ID
	PhoneNumber *string
	BSUID       *string
	ParentBSUID *string
	Username    *string
	Name        *string
	JoinedInto  *contacts.ID
}

// rows are the contacts of some histories.
func (b fixture) rows(t *testing.T, known map[contacts.ID]bool) map[contacts.ID]row {
	t.Helper()
	ids := []contacts.ID{}
	for id := range known {
		ids = append(ids, id)
	}
	all, err := postgres.Many[row](t.Context(), b.DB.Of(b.org), `
SELECT id, phone_number, bsuid, parent_bsuid, username, name, joined_into
FROM contacts WHERE org_id = @org_id AND id = ANY (@ids)`, postgres.Args{"ids": ids})
	require.NoError(t, err)
	byID := map[contacts.ID]row{}
	for _, r := range all {
		byID[r.ID] = r
	}
	return byID
}

// announced is an event of a contact, with the fields that the test compares.
type announced struct {
	Type string `json:"type"`
	Data struct {
		Contact struct {
			ID          contacts.ID `json:"id"`
			PhoneNumber *string     `json:"phone_number"`
		} `json:"contact"`
		Previous *struct {
			PhoneNumber *string `json:"phone_number"`
			BSUID       *string `json:"bsuid"`
			ParentBSUID *string `json:"parent_bsuid"`
			Username    *string `json:"username"`
		} `json:"previous"`
		ChangedFields []string `json:"changed_fields"`
		Reason        string   `json:"reason"`
	} `json:"data"`
}

// events returns the events after the last known one.
func (b fixture) events(t *testing.T, last *events.ID) []announced {
	t.Helper()
	type recorded struct {
		ID   events.ID
		Body []byte
	}
	all, err := postgres.Many[recorded](t.Context(), b.DB.Of(b.org), `
SELECT id, body FROM events WHERE org_id = @org_id AND id > @last ORDER BY id`, postgres.Args{"last": *last})
	require.NoError(t, err)
	announcedEvents := make([]announced, len(all))
	for i, event := range all {
		require.NoError(t, json.Unmarshal(event.Body, &announcedEvents[i]))
		*last = event.ID
	}
	return announcedEvents
}

// TestResolve_Histories_OneContactPerPerson plays histories against the database, some sightings at a time:
// one contact for each person, and each change announced as what it is.
func TestResolve_Histories_OneContactPerPerson(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	known, last, joins, notices := map[contacts.ID]bool{}, events.ID{}, 0, 0
	for i := range count(40, 10_000) {
		h := histories.Of(i).Example(i)
		clear(known)
		for chunk := range slices.Chunk(h.Sightings, 1+i%3) {
			b.Clock.Move(time.Second) // the ids of events follow the times of changes
			before := b.rows(t, known)
			found := b.resolve(t, plain(chunk)...)
			for _, contact := range found {
				known[contact.ID] = true
			}
			announcedEvents := b.events(t, &last)
			for _, event := range announcedEvents {
				known[event.Data.Contact.ID] = true
			}
			joined, updated := b.requireAnnounced(t, before, b.rows(t, known), announcedEvents)
			joins, notices = joins+joined, notices+updated
		}
		histories.RequireOneEach(t, h, identities(b.resolve(t, plain(h.Sightings)...)))
		require.Empty(t, b.events(t, &last), "known sightings cause no events")
	}
	t.Logf("%d joined, %d identities updated", joins, notices)
	require.Positive(t, joins)
	require.Positive(t, notices)
}

func plain(seen []histories.Seen) []contacts.Sighting {
	sightings := make([]contacts.Sighting, len(seen))
	for i, s := range seen {
		sightings[i] = s.Sighting
	}
	return sightings
}

func identities(found []contacts.Contact) []histories.Found {
	return postgres.Each(found, func(c contacts.Contact) histories.Found { return histories.Found{ID: c.ID, Identity: c.Identity} })
}

// requireAnnounced compares the events with the changes of the rows.
func (b fixture) requireAnnounced(t *testing.T, before, after map[contacts.ID]row, announcedEvents []announced) (joined, updated int) {
	t.Helper()
	byType := map[string]map[contacts.ID]announced{}
	for _, event := range announcedEvents {
		if byType[event.Type] == nil {
			byType[event.Type] = map[contacts.ID]announced{}
		}
		_, twice := byType[event.Type][event.Data.Contact.ID]
		require.False(t, twice, "%s twice", event.Type)
		byType[event.Type][event.Data.Contact.ID] = event
	}
	wanted := map[contacts.ID]bool{}
	for id, now := range after {
		was, existed := before[id]
		_, created := byType["contact.created"][id]
		require.Equal(t, !existed, created, "%s", id)
		lost := func(was, is *string) bool { return was != nil && (is == nil || *was != *is) }
		switch {
		case !existed:
		case was.JoinedInto == nil && now.JoinedInto != nil:
			joined++
			wanted[*now.JoinedInto] = true
		case was.JoinedInto == nil && (lost(was.PhoneNumber, now.PhoneNumber) || lost(was.BSUID, now.BSUID) || lost(was.ParentBSUID, now.ParentBSUID)):
			wanted[id] = true
			previous := byType["contact.identity_updated"][id].Data.Previous
			require.NotNil(t, previous)
			require.Equal(t, []*string{was.PhoneNumber, was.BSUID, was.ParentBSUID, was.Username},
				[]*string{previous.PhoneNumber, previous.BSUID, previous.ParentBSUID, previous.Username})
		}
	}
	for id, event := range byType["contact.identity_updated"] {
		require.True(t, wanted[id], "%s: %+v was %+v is %+v", id, event, before[id], after[id])
		require.NotEmpty(t, event.Data.Reason)
		now, previous := after[id], event.Data.Previous
		var changed []string
		for _, field := range []struct {
			name    string
			was, is *string
		}{
			{"phone_number", previous.PhoneNumber, now.PhoneNumber},
			{"bsuid", previous.BSUID, now.BSUID},
			{"parent_bsuid", previous.ParentBSUID, now.ParentBSUID},
			{"username", previous.Username, now.Username},
		} {
			if (field.was == nil) != (field.is == nil) || field.was != nil && *field.was != *field.is {
				changed = append(changed, field.name)
			}
		}
		require.Equal(t, changed, event.Data.ChangedFields)
		require.Equal(t, now.PhoneNumber, event.Data.Contact.PhoneNumber)
	}
	require.Len(t, byType["contact.identity_updated"], len(wanted))
	return joined, len(wanted)
}

// TestResolve_Concurrent_OneContactPerPerson has the sightings of each history resolved by several at once.
func TestResolve_Concurrent_OneContactPerPerson(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	for i := range count(15, 500) {
		h := histories.Of(i).Example(i + 1_000_000)
		var group sync.WaitGroup
		failed := make(chan error, len(h.Sightings))
		for worker := range 4 {
			group.Go(func() {
				for at := worker; at < len(h.Sightings); at += 4 {
					_, err := b.tryResolve(ctx, h.Sightings[at].Sighting)
					for try := 0; try < 20 && fault.Of(err) == fault.ServiceUnavailable; try++ { // the machine is busy
						_, err = b.tryResolve(ctx, h.Sightings[at].Sighting)
					}
					failed <- err
				}
			})
		}
		group.Wait()
		close(failed)
		for err := range failed {
			require.NoError(t, err)
		}
		histories.RequireOneEach(t, h, identities(b.resolve(t, plain(h.Sightings)...)))
	}
}
