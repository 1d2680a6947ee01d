package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

type person struct {
	Name  string
	Email *string
	Born  time.Time
}

func columnsOf(people []person) postgres.Args {
	return postgres.Columns(people,
		postgres.Col("names", func(p person) string { return p.Name }),
		postgres.Col("emails", func(p person) *string { return p.Email }),
		postgres.Col("borns", func(p person) time.Time { return p.Born }))
}

func TestColumns_UnnestedAgain_GivesTheSameRows(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	people := []person{{Name: "Ana", Email: new("ana@example.com"), Born: pgtest.Start()}, {Name: "Rui", Born: pgtest.Start().Add(time.Hour)}}
	const sql = `SELECT name, email, born FROM unnest(@names::text[], @emails::text[], @borns::timestamptz[]) AS given (name, email, born)`
	for _, given := range [][]person{people, {}, nil} {
		found, err := postgres.Many[person](t.Context(), db.System("test"), sql, columnsOf(given))
		require.NoError(t, err)
		require.Equal(t, append([]person{}, given...), found)
	}
}

func TestColumns_NoRows_AreEmptyArraysAndNotNull(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	null, err := postgres.One[bool](t.Context(), db.System("test"), `SELECT @names::text[] IS NULL`,
		postgres.Columns(nil, postgres.Col("names", func(p person) string { return p.Name })))
	require.NoError(t, err)
	require.False(t, null)
}

func TestNotFound_NoRow_ResourceNotFound(t *testing.T) {
	t.Parallel()
	require.NoError(t, postgres.NotFound(nil, "label", ""))
	require.Equal(t, fault.NotFound("label"), postgres.NotFound(postgres.ErrNoRow, "label", ""))
	require.Equal(t, fault.NotFound("label").At("label_id"), postgres.NotFound(postgres.ErrNoRow, "label", "label_id"))
	other := errors.New("other")
	require.Equal(t, other, postgres.NotFound(other, "label", ""))
}

// BenchmarkColumns compares the helper with arrays that are filled by hand in one loop.
func BenchmarkColumns(b *testing.B) {
	people := make([]person, 200)
	b.Run("helper", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			columnsOf(people)
		}
	})
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			names, emails, borns := make([]string, len(people)), make([]*string, len(people)), make([]time.Time, len(people))
			for i, p := range people {
				names[i], emails[i], borns[i] = p.Name, p.Email, p.Born
			}
			_ = postgres.Args{"names": names, "emails": emails, "borns": borns}
		}
	})
}
