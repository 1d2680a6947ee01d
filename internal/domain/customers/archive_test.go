package customers_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// in creates a customer with a status.
func (b fixture) in(t *testing.T, status customers.Status) customers.Customer {
	t.Helper()
	customer := b.Customer(t, b.org)
	if status == customers.Pending {
		return customer
	}
	customer, err := b.Customers.Update(t.Context(), b.org, customer.ID, customers.Patch{Status: patch.To(status)})
	require.NoError(t, err)
	require.Equal(t, status, customer.Status)
	return customer
}

func TestService_ArchiveAndRestore_EachStatus_Restored(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	ways := map[string]func(customers.ID) (customers.Customer, error){
		"by DELETE": func(id customers.ID) (customers.Customer, error) { return b.Customers.Archive(ctx, b.org, id) },
		"by PATCH": func(id customers.ID) (customers.Customer, error) {
			return b.Customers.Update(ctx, b.org, id, customers.Patch{Status: patch.To(customers.Archived)})
		},
	}
	for _, status := range []customers.Status{customers.Pending, customers.Active, customers.Suspended} {
		for way, archive := range ways {
			t.Log(status, way)
			before := b.in(t, status)
			b.requireArchived(t, before, archive)
			b.requireRestored(t, before)
		}
	}
}

func (b fixture) requireArchived(t *testing.T, before customers.Customer, archive func(customers.ID) (customers.Customer, error)) {
	t.Helper()
	count := len(b.recorded(t))
	b.Clock.Move(time.Minute)
	archived, err := archive(before.ID)
	require.NoError(t, err)
	want, at := before, b.Clock.Now()
	want.Status, want.PreviousStatus, want.ArchivedAt, want.UpdatedAt, want.LastEventAt = customers.Archived, &before.Status, &at, at, at
	require.Equal(t, want, archived)
	require.Len(t, b.recorded(t), count+1, "archived, and not updated as well")
	b.requireRecorded(t, events.CustomerArchived, archived)
	stored, err := b.Customers.Get(t.Context(), b.org, before.ID)
	require.NoError(t, err)
	require.Equal(t, archived, stored)

	b.Clock.Move(time.Minute)
	again, err := archive(before.ID)
	require.NoError(t, err)
	require.Equal(t, archived, again)
	require.Len(t, b.recorded(t), count+1, "archiving again is not announced")
}

func (b fixture) requireRestored(t *testing.T, before customers.Customer) {
	t.Helper()
	count := len(b.recorded(t))
	restored, err := b.Customers.Restore(t.Context(), b.org, audit.Operator(), before.ID)
	require.NoError(t, err)
	want := before
	want.UpdatedAt, want.LastEventAt = b.Clock.Now(), b.Clock.Now()
	require.Equal(t, want, restored)
	require.Len(t, b.recorded(t), count+1)
	b.requireRecorded(t, events.CustomerUpdated, restored)
	entries, err := b.Audit.List(t.Context(), b.org, b.Clock.Now(), 10)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "customer.restored", entries[0].Action)
	require.Equal(t, before.ID.String(), entries[0].Target)
	actor := audit.Principal{Kind: entries[0].ActorKind, ID: entries[0].ActorID}
	require.Equal(t, audit.Operator(), actor)

	b.Clock.Move(time.Minute)
	again, err := b.Customers.Restore(t.Context(), b.org, audit.Operator(), before.ID)
	require.NoError(t, err)
	require.Equal(t, restored, again)
	require.Len(t, b.recorded(t), count+1, "a customer that is not archived cannot be restored")
	entries, err = b.Audit.List(t.Context(), b.org, b.Clock.Now(), 1)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestService_Update_Archived_OnlyMetadataAccepted(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.Customer(t, b.org)
	archived, err := b.Customers.Archive(ctx, b.org, made.ID)
	require.NoError(t, err)
	data := patch.To(json.RawMessage(`{"a":1}`))
	for param, changes := range map[string][]customers.Patch{
		"name": {
			{Name: patch.To(made.Name)},
			{Name: patch.To("New"), Metadata: data},
			{Name: patch.To("New"), Status: patch.To(customers.Archived)},
			{Name: patch.To("New"), Email: patch.To("a@b.example"), Status: patch.To(customers.Active)},
		},
		"email":  {{Email: patch.Clear[string]()}, {Email: patch.To("a@b.example"), Status: patch.To(customers.Archived)}},
		"status": {{Status: patch.To(customers.Active)}, {Status: patch.To(customers.Suspended), Metadata: data}},
	} {
		for _, change := range changes {
			_, err := b.Customers.Update(ctx, b.org, made.ID, change)
			refused, ok := errors.AsType[*fault.Error](err)
			require.True(t, ok)
			require.Equal(t, fault.CustomerArchived, refused.Code)
			require.Equal(t, param, refused.Param)
		}
	}
	stored, err := b.Customers.Get(ctx, b.org, made.ID)
	require.NoError(t, err)
	require.Equal(t, archived, stored)
	require.Len(t, b.recorded(t), 2)

	for _, change := range []customers.Patch{{}, {Status: patch.To(customers.Archived)}, {Metadata: patch.Clear[json.RawMessage]()}} {
		same, err := b.Customers.Update(ctx, b.org, made.ID, change)
		require.NoError(t, err)
		require.Equal(t, archived, same)
	}
	require.Len(t, b.recorded(t), 2)
	b.Clock.Move(time.Minute)
	changed, err := b.Customers.Update(ctx, b.org, made.ID, customers.Patch{Metadata: data, Status: patch.To(customers.Archived)})
	require.NoError(t, err)
	want := archived
	want.Metadata, want.UpdatedAt, want.LastEventAt = data.Value, b.Clock.Now(), b.Clock.Now()
	require.Equal(t, want, changed, "and it stays archived since then")
	require.Len(t, b.recorded(t), 3)
	b.requireRecorded(t, events.CustomerUpdated, changed)
}

func TestService_Update_FieldsAndArchive_TwoEvents(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.Customer(t, b.org)
	b.Clock.Move(time.Minute)
	archived, err := b.Customers.Update(ctx, b.org, made.ID, customers.Patch{Name: patch.To("New"), Status: patch.To(customers.Archived)})
	require.NoError(t, err)
	require.Equal(t, []events.Type{events.CustomerCreated, events.CustomerUpdated, events.CustomerArchived}, b.recordedTypes(t))
	b.requireRecorded(t, events.CustomerArchived, archived)
	require.Equal(t, "New", archived.Name)
	require.Equal(t, b.Clock.Now().Add(time.Millisecond), archived.UpdatedAt)
	require.Equal(t, archived.UpdatedAt, *archived.ArchivedAt)

	updated := b.recorded(t)[1]
	require.Equal(t, b.Clock.Now(), updated.ID.CreatedAt())
	var body struct {
		Data struct{ Customer map[string]any } `json:"data"`
	}
	require.NoError(t, json.Unmarshal(updated.Body, &body))
	require.Equal(t, "New", body.Data.Customer["name"])
	require.Equal(t, "pending", body.Data.Customer["status"], "not archived yet")
	require.Nil(t, body.Data.Customer["archived_at"])
	stored, err := b.Customers.Get(ctx, b.org, made.ID)
	require.NoError(t, err)
	require.Equal(t, archived, stored)
}

func TestService_ConcurrentChanges_EventTimesAscend(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.Customer(t, b.org)
	last := made.UpdatedAt
	statuses := []customers.Status{customers.Active, customers.Suspended}
	for i := range 20 {
		if i == 10 {
			b.Clock.Move(-time.Hour) // another process, or a clock that was set
		}
		changed, err := b.Customers.Update(ctx, b.org, made.ID, customers.Patch{Status: patch.To(statuses[i%2])})
		require.NoError(t, err)
		require.Equal(t, last.Add(time.Millisecond), changed.UpdatedAt)
		last = changed.UpdatedAt
	}
	var together sync.WaitGroup
	for i := range 8 {
		together.Go(func() {
			data := json.RawMessage(`{"n":` + strconv.Itoa(i) + `}`)
			if _, err := b.Customers.Update(ctx, b.org, made.ID, customers.Patch{Metadata: patch.To(data)}); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	_, err := b.Customers.Archive(ctx, b.org, made.ID)
	require.NoError(t, err)
	all := b.recorded(t)
	require.Len(t, all, 1+20+8+1)
	for i := range all[1:] {
		require.True(t, all[i].ID.CreatedAt().Before(all[i+1].ID.CreatedAt()), "event %d is not before the next", i)
	}
	require.Equal(t, events.CustomerCreated, all[0].Type)
	require.Equal(t, events.CustomerArchived, all[len(all)-1].Type)
}

func TestService_FailedTransaction_NoEvent(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.Customer(t, b.org)
	archived, err := b.Customers.Archive(ctx, b.org, made.ID)
	require.NoError(t, err)
	before := b.recorded(t)

	_, err = b.Customers.Restore(ctx, b.org, audit.Principal{Kind: "nobody"}, made.ID)
	require.Error(t, err, "the audit log takes no such actor, and the event was recorded before")
	refuses := postgres.WithWitness(ctx, witness{})
	_, err = b.Customers.Restore(refuses, b.org, audit.Operator(), made.ID)
	require.ErrorIs(t, err, errWitness)
	_, err = b.Customers.Create(refuses, b.org, customers.Draft{Name: "Never"})
	require.ErrorIs(t, err, errWitness)
	_, err = b.Customers.Update(refuses, b.org, made.ID, customers.Patch{Metadata: patch.To(json.RawMessage(`{"a":1}`))})
	require.ErrorIs(t, err, errWitness)

	stored, err := b.Customers.Get(ctx, b.org, made.ID)
	require.NoError(t, err)
	require.Equal(t, archived, stored)
	require.Equal(t, before, b.recorded(t))
}

var errWitness = errors.New("the answer cannot be stored")

// witness fails before each commit, as the store of idempotent answers may.
type witness struct{}

func (witness) Begin(_ context.Context, _ *postgres.Tx) error       { return nil }
func (witness) Keep(_ context.Context, _ *postgres.Tx, _ any) error { return errWitness }
