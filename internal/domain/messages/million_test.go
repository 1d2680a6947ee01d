package messages_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// million is an account whose messages came one each second: a million are of 12 days.
func million(t *testing.T, size int) *population {
	t.Helper()
	d := newDatabase(t)
	defer d.vacuum(t)
	return d.populate(t, size, pgtest.Start().Add(-time.Duration(size+1)*time.Second), time.Second)
}

// TestMillion_EveryFilter_AsFastAsAmongTenThousand lists and fetches among a million messages of one
// account. In CI it compares the lists of a small account with SQL.
func TestMillion_EveryFilter_AsFastAsAmongTenThousand(t *testing.T) { //nolint:paralleltest // measures
	if !proof.Full() {
		p := million(t, 1_000)
		for name, ask := range p.questions() {
			p.requireAll(t, name, ask())
		}
		return
	}
	small, large := million(t, 10_000), million(t, 1_000_000)
	for _, name := range slices.Sorted(maps.Keys(large.questions())) {
		large.ask(t, large.questions()[name]())
		t.Logf("plan of %s:\n%s", name, large.explain(t))
	}
	require.Empty(t, slower(t, small, large), "slower than 1.5 times among a million")
}
