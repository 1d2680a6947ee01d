package messages_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
	"github.com/parley-chat/parley/schema"
)

const (
	year   = 365 * 24 * time.Hour
	silent = 300 * 24 * time.Hour
)

// newHistory makes a database with a year of messages of many organizations. It returns the one with
// the most messages, one that has been silent for 300 days, and one like all others.
func newHistory(t *testing.T, organizations, total, most int) map[string]*population {
	t.Helper()
	d := newDatabase(t)
	tables := slices.DeleteFunc(schema.Partitioned(), func(p postgres.Partitioned) bool {
		return p.Table != "messages" && p.Table != "message_states"
	})
	began := pgtest.Start().Add(-year)
	for month := began; month.Before(pgtest.Start()); month = month.AddDate(0, 1, 0) {
		require.NoError(t, d.DB.EnsurePartitions(t.Context(), tables, month))
	}
	each := (total - most) / (organizations - 1)
	over := func(size int, span time.Duration) *population {
		return d.populate(t, size, began, span/time.Duration(size+1))
	}
	named := map[string]*population{"most messages": over(most, year), "silent": over(each, year-silent), "usual": over(each, year)}
	for range organizations - len(named) {
		over(each, year)
	}
	d.vacuum(t)
	return named
}

// TestHistory_EveryFilter_AsFastAsAmongFiftyThousand lists and fetches among 5 million messages of 1,000
// organizations and 365 days. In CI it compares the lists of a small database with SQL.
func TestHistory_EveryFilter_AsFastAsAmongFiftyThousand(t *testing.T) { //nolint:paralleltest // measures
	if !proof.Full() {
		for _, p := range newHistory(t, 5, 1_000, 400) {
			p.requirePruned(t)
			for name, ask := range p.questions() {
				p.requireAll(t, name, ask())
			}
		}
		return
	}
	began := time.Now()
	small, large := newHistory(t, 10, 50_000, 10_000), newHistory(t, 1_000, 5_000_000, 1_000_000)
	t.Logf("loaded in %s", time.Since(began).Round(time.Second))
	var late []string
	for _, role := range slices.Sorted(maps.Keys(large)) {
		p := large[role]
		for _, name := range slices.Sorted(maps.Keys(p.questions())) {
			p.ask(t, p.questions()[name]())
			t.Logf("plan of %s, %s:\n%s", role, name, p.explain(t))
		}
		p.requirePruned(t)
		p.requireShortPages(t)
		t.Logf("%s, of 50,000 and of 5 million messages:", role)
		for _, name := range slower(t, small[role], p) {
			late = append(late, role+": "+name)
		}
	}
	require.Empty(t, late, "slower than 1.5 times among 5 million")
}

// requirePruned fetches a message and lists the newest: each reads the partition that has them.
func (p *population) requirePruned(t *testing.T) {
	t.Helper()
	partitions := func() (read []string) {
		for _, found := range regexp.MustCompile(` on (messages_\w+) `).FindAllStringSubmatch(p.explain(t), -1) {
			read = append(read, found[1])
		}
		slices.Sort(read)
		return slices.Compact(read)
	}
	_, err := p.Messages.Get(t.Context(), p.org, p.account, p.some[0])
	require.NoError(t, err)
	require.Len(t, partitions(), 1, "a fetch")
	after := p.at(1 - 20/float64(p.size))
	q := p.questions()["created_after, a few"]()
	require.NotEmpty(t, p.ask(t, q).Items)
	since := fmt.Sprintf("messages_p%s", after.Format("200601"))
	for _, partition := range partitions() {
		require.GreaterOrEqual(t, partition, since, "created_after")
	}
}

// requireShortPages asks for what no message has: an answer reads a bounded number of rows and says
// where to go on.
func (p *population) requireShortPages(t *testing.T) {
	t.Helper()
	page := p.ask(t, p.questions()["type, none"]())
	require.Empty(t, page.Items)
	require.Equal(t, p.size > paging.MaxRead, page.Next != nil)
}
