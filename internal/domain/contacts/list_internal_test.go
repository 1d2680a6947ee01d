package contacts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts/identity"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/textkey"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// generated holds contacts of two accounts whose names, numbers and emails have common prefixes.
type generated struct {
	now     time.Time
	people  []Contact
	labeled map[ID]bool
	random  *rand.Rand
}

func newID(at time.Time) (id ID) {
	made := ids.New[contactKind](at)
	if err := id.UnmarshalText([]byte(made.String())); err != nil {
		panic(err)
	}
	return id
}

func (c *generated) pick(of ...string) string { return of[c.random.IntN(len(of))] }

// text returns one of few syllables, in any case, followed by one or two digits.
func (c *generated) text() string {
	return c.pick("an", "An", "ana", "ANB", "straße", "STRASSE", "b", "z\U0010ffff", "+351") + c.pick("", "1", "2", "12")
}

func (c *generated) grow(accounts []accounts.ID) {
	maybe := func(text string) *string {
		if c.random.IntN(4) == 0 {
			return nil
		}
		return &text
	}
	for i := range 400 {
		at := c.now.Add(time.Duration(i) * time.Second)
		one := Contact{
			ID: newID(at), AccountID: accounts[c.random.IntN(8)/7], Marketing: Unknown,
			Name: maybe(c.text()), Email: maybe(c.text()), UpdatedAt: c.now.Add(time.Duration(c.random.IntN(400)) * time.Second),
		}
		one.PhoneNumber, one.Username = maybe(fmt.Sprintf("+3519%08d", c.random.IntN(100_000_000))), maybe(c.text())
		c.people, c.labeled[one.ID] = append(c.people, one), c.random.IntN(3) == 0
	}
}

// question returns a random combination of filters.
func (c *generated) question(label labels.ID) (filter Filter) {
	one := func(text *string) string {
		if text == nil {
			return c.text()
		}
		return *text
	}
	person := c.people[c.random.IntN(len(c.people))]
	if c.random.IntN(8) == 0 && person.PhoneNumber != nil {
		filter.PhoneNumber = *person.PhoneNumber
	}
	if c.random.IntN(6) == 0 {
		filter.Username = strings.ToUpper(one(person.Username))
	}
	if c.random.IntN(6) == 0 {
		filter.Email = strings.ToUpper(one(person.Email))
	}
	if c.random.IntN(3) == 0 {
		filter.LabelID = &label
	}
	if c.random.IntN(3) == 0 {
		filter.UpdatedSince = new(c.now.Add(time.Duration(c.random.IntN(500)-50) * time.Second))
	}
	if c.random.IntN(2) == 0 {
		filter.Q = c.pick("A", "an", "STRAS", "+351", "+35191", "z", "nobody", "@an", one(person.Name), one(person.Email))
	}
	return filter
}

// matching filters all contacts in Go, newest first.
func (c *generated) matching(of accounts.ID, f Filter) []ID {
	found := []ID{}
	same := func(text *string, wanted string) bool {
		return wanted == "" || text != nil && textkey.Fold(*text) == textkey.Fold(wanted)
	}
	starts := func(text *string, prefix string) bool {
		return text != nil && prefix != "" && strings.HasPrefix(textkey.Fold(*text), textkey.Fold(prefix))
	}
	for _, one := range slices.Backward(c.people) {
		if one.AccountID == of && same(one.PhoneNumber, f.PhoneNumber) && same(one.Username, f.Username) && same(one.Email, f.Email) &&
			(f.LabelID == nil || c.labeled[one.ID]) && (f.UpdatedSince == nil || one.UpdatedAt.After(*f.UpdatedSince)) &&
			(f.Q == "" || starts(one.Name, f.Q) || starts(one.Email, f.Q) || starts(one.Username, identity.Bare(f.Q)) || starts(one.PhoneNumber, f.Q)) {
			found = append(found, one.ID)
		}
	}
	return found
}

// TestListContacts_AllPages_SameAsAFilterInGo follows the cursors of lists with any
// filters to the end and compares with what a filter over all contacts gives, also when few rows
// are read in a call and few matches are gathered, so that pages are short or empty.
func TestListContacts_AllPages_SameAsAFilterInGo(t *testing.T) {
	t.Parallel()
	p, ctx := newPlanFixture(t), t.Context()
	seed := rand.Uint64()
	c := &generated{now: pgtest.Start(), labeled: map[ID]bool{}, random: rand.New(rand.NewPCG(seed, 0))}
	on := []accounts.ID{p.account, p.other}
	c.grow(on)
	_, err := postgres.InTx(ctx, p.db, p.org, func(tx *postgres.Tx) (struct{}, error) { return struct{}{}, c.store(ctx, tx, p.label) })
	require.NoError(t, err)
	short := 0
	for range proof.Sized(100, 400) {
		filter, of := c.question(p.label), on[c.random.IntN(2)]
		slice, found := paging.Slice[ID]{Limit: 1 + c.random.IntN(40)}, []ID{}
		gathered, read := 1+c.random.IntN(60), 1+c.random.IntN(100)
		for {
			q := queryOf(of, filter)
			q.maxGathered, q.args["read"] = gathered, read
			page, err := q.list(ctx, p.db.Of(p.org), slice)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Items), slice.Limit)
			found = append(found, postgres.Each(page.Items, idOf)...)
			if slice.After = page.Next; page.Next == nil {
				break
			}
			if len(page.Items) < slice.Limit {
				short++
			}
		}
		require.Equal(t, c.matching(of, filter), found, "seed %d: %+v, pages of %d, %d gathered, %d read", seed, filter, slice.Limit, gathered, read)
	}
	require.Positive(t, short, "no page was short")
}

// store writes the contacts with their keys and labels.
func (c *generated) store(ctx context.Context, tx *postgres.Tx, label labels.ID) error {
	if err := insertContacts(ctx, tx, c.people); err != nil {
		return err
	}
	for _, one := range c.people {
		if one.PhoneNumber != nil {
			if _, err := tx.Exec(ctx, sqlPutKeys, postgres.Args{
				argAccount: one.AccountID, "keys": []string{identity.NumberKey(*one.PhoneNumber)}, "contact_ids": []ID{one.ID},
				"sinces": []time.Time{c.now}, "retired_ats": []*time.Time{nil},
			}); err != nil {
				return err
			}
		}
		if !c.labeled[one.ID] {
			continue
		}
		if _, err := tx.Exec(ctx, sqlAttach, postgres.Args{argAccount: one.AccountID, "ids": []ID{one.ID}, "label_id": label}); err != nil {
			return err
		}
	}
	return nil
}
