package contacts_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// Names of people: 40 first and 60 last names, so that a prefix of three letters is shared
// by some and of eight by few. Every third has a username and every other an address.
const sqlPopulate = `
INSERT INTO contacts (org_id, id, account_id, phone_number, bsuid, username, username_key, name, name_key, email, email_key, marketing, updated_at)
SELECT $1, id, $2, '+3519' || lpad((n::bigint * 7919 % 100000000)::text, 8, '0'), 'PT.' || n,
    CASE WHEN n % 3 = 0 THEN lower(first) || '.' || n END, CASE WHEN n % 3 = 0 THEN lower(first) || '.' || n END,
    first || ' ' || last || ' ' || n, lower(first || ' ' || last || ' ' || n),
    CASE WHEN n % 2 = 0 THEN lower(last) || n || '@example.com' END, CASE WHEN n % 2 = 0 THEN lower(last) || n || '@example.com' END,
    'unknown', at
FROM (
    SELECT n, at, ulid(at) AS id,
        (ARRAY ['Ana','Antonio','Beatriz','Bruno','Carla','Carlos','Clara','Daniel','Diana','Diogo','Elena','Emilio','Fabio','Filipa','Gabriel',
                'Helena','Hugo','Ines','Isabel','Joana','Joao','Jorge','Julia','Laura','Leonor','Luis','Manuel','Maria','Marta','Miguel','Nuno',
                'Olga','Paula','Pedro','Rita','Rui','Sara','Sofia','Tiago','Vera'])[1 + abs(hashint8(n)) % 40] AS first,
        (ARRAY ['Abreu','Almeida','Alves','Amaral','Andrade','Antunes','Araujo','Azevedo','Baptista','Barbosa','Barros','Branco','Brito','Campos',
                'Cardoso','Carneiro','Carvalho','Castro','Coelho','Correia','Costa','Cruz','Cunha','Dias','Duarte','Esteves','Faria','Fernandes',
                'Ferreira','Figueiredo','Fonseca','Freitas','Garcia','Gomes','Gonçalves','Guerreiro','Henriques','Leal','Leite','Lima','Lopes',
                'Machado','Magalhães','Marques','Martins','Matos','Melo','Mendes','Moreira','Nunes','Oliveira','Pereira','Pinto','Reis','Ribeiro',
                'Rocha','Santos','Silva','Sousa','Teixeira'])[1 + abs(hashint8(n * 31)) % 60] AS last
    FROM (SELECT n, $3::timestamptz + n * interval '1 second' AS at FROM generate_series(1, $4::int) AS n) AS series
) AS people`

const (
	sqlPopulateKeys = `
INSERT INTO contact_keys (org_id, account_id, key, contact_id, since)
SELECT org_id, account_id, 'n' || substr(phone_number, 2), id, updated_at FROM contacts WHERE org_id = $1
UNION ALL
SELECT org_id, account_id, 'b' || bsuid, id, updated_at FROM contacts WHERE org_id = $1
ON CONFLICT DO NOTHING`
	sqlSome = `
SELECT array_agg(email), array_agg(username)
FROM (SELECT email, username FROM contacts WHERE org_id = $1 AND email IS NOT NULL AND username IS NOT NULL ORDER BY random() LIMIT 500) AS people`
	sqlPopulateLabels = `
INSERT INTO contact_labels (org_id, contact_id, label_id, account_id)
SELECT org_id, id, $2, account_id FROM contacts WHERE org_id = $1 AND hashint8(extract(epoch FROM updated_at)::bigint) % $3 = 0`
)

// populated is an organization with many contacts.
type populated struct {
	org          orgs.ID
	account      accounts.Account
	size         int
	rare, common labels.ID
	// Some of the emails and usernames of its contacts.
	emails, usernames []string
}

func populate(t *testing.T, w *factory.World, conn *pgx.Conn, size int) populated {
	t.Helper()
	p := populated{size: size}
	p.org, _ = w.Org(t)
	p.account = w.Account(t, p.org)
	p.rare, p.common = w.Label(t, p.org).ID, w.Label(t, p.org).ID
	began := pgtest.Start().Add(-time.Duration(size) * time.Second)
	run := func(sql string, args ...any) {
		_, err := conn.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	run(sqlPopulate, p.org, p.account.ID, began, size)
	run(sqlPopulateKeys, p.org)
	run(sqlPopulateLabels, p.org, p.rare, max(2, size/30))
	run(sqlPopulateLabels, p.org, p.common, 3)
	require.NoError(t, conn.QueryRow(t.Context(), sqlSome, p.org).Scan(&p.emails, &p.usernames))
	return p
}

// questions returns the lists that are measured, each with random values.
func questions(p populated) map[string]func() (contacts.Filter, paging.Slice[contacts.ID]) {
	page := paging.Slice[contacts.ID]{Limit: 25}
	person := func() int { return 1 + rand.N(p.size) }
	prefix := func(length int) string {
		return string([]rune([]string{"maria silva ", "joana ferreira", "rui costa 1", "vera teixeira", "ana abreu", "luis gomes 2", "sofia reis"}[rand.N(7)])[:length])
	}
	ask := func(of func() contacts.Filter) func() (contacts.Filter, paging.Slice[contacts.ID]) {
		return func() (contacts.Filter, paging.Slice[contacts.ID]) { return of(), page }
	}
	ago := func(share float64) *time.Time {
		return new(pgtest.Start().Add(-time.Duration(share * float64(p.size) * float64(time.Second))))
	}
	return map[string]func() (contacts.Filter, paging.Slice[contacts.ID]){
		"first page": ask(func() contacts.Filter { return contacts.Filter{} }),
		"deep page": func() (contacts.Filter, paging.Slice[contacts.ID]) {
			at := ids.Floor[contactKind](pgtest.Start().Add(-time.Duration(rand.N(p.size)) * time.Second))
			return contacts.Filter{}, paging.Slice[contacts.ID]{Limit: 25, After: parsed(at.String())}
		},
		"phone_number": ask(func() contacts.Filter {
			return contacts.Filter{PhoneNumber: fmt.Sprintf("+3519%08d", person()*7919%100_000_000)}
		}),
		"bsuid":               ask(func() contacts.Filter { return contacts.Filter{BSUID: fmt.Sprintf("PT.%d", person())} }),
		"username":            ask(func() contacts.Filter { return contacts.Filter{Username: p.usernames[rand.N(len(p.usernames))]} }),
		"email":               ask(func() contacts.Filter { return contacts.Filter{Email: p.emails[rand.N(len(p.emails))]} }),
		"rare label":          ask(func() contacts.Filter { return contacts.Filter{LabelID: &p.rare} }),
		"common label":        ask(func() contacts.Filter { return contacts.Filter{LabelID: &p.common} }),
		"q, 1 letter":         ask(func() contacts.Filter { return contacts.Filter{Q: prefix(1)} }),
		"q, 3 letters":        ask(func() contacts.Filter { return contacts.Filter{Q: prefix(3)} }),
		"q, 6 letters":        ask(func() contacts.Filter { return contacts.Filter{Q: prefix(6)} }),
		"q, a whole name":     ask(func() contacts.Filter { return contacts.Filter{Q: prefix(9)} }),
		"q, nobody":           ask(func() contacts.Filter { return contacts.Filter{Q: "zzz"} }),
		"q, all numbers":      ask(func() contacts.Filter { return contacts.Filter{Q: "+351"} }),
		"q, part of a number": ask(func() contacts.Filter { return contacts.Filter{Q: fmt.Sprintf("+3519%04d", rand.N(10_000))} }),
		"q, of a full page": ask(func() contacts.Filter {
			digits := len(strconv.Itoa(p.size)) - 3 // so many digits that a page is just full
			return contacts.Filter{Q: fmt.Sprintf("+3519%0*d", digits, rand.N(int(math.Pow10(digits))))}
		}),
		"q, part of an email": ask(func() contacts.Filter { return contacts.Filter{Q: fmt.Sprintf("silva%d", 10+rand.N(90))} }),
		"updated, a few":      ask(func() contacts.Filter { return contacts.Filter{UpdatedSince: ago(10 / float64(p.size))} }),
		"updated, half":       ask(func() contacts.Filter { return contacts.Filter{UpdatedSince: ago(0.5)} }),
		"updated, all":        ask(func() contacts.Filter { return contacts.Filter{UpdatedSince: ago(2)} }),
	}
}

// measuredOrg is a populated organization and its cell.
type measuredOrg struct {
	*factory.World
	populated
}

// measured holds the median and the 99th percentile of the durations, and the mean number of
// contacts of a page.
type measured struct {
	p50, p99 time.Duration
	rows     float64
}

// compare reads each list of all organizations in turn, so that other work on the machine slows
// all of them alike. The result is the median of several rounds.
func compare(t *testing.T, rounds, times int, measuredOrgs ...measuredOrg) map[string][]measured {
	t.Helper()
	all := map[string][]measured{}
	for name := range questions(measuredOrgs[0].populated) {
		halves, slowest, rows := make([][]time.Duration, len(measuredOrgs)), make([][]time.Duration, len(measuredOrgs)), make([]int, len(measuredOrgs))
		for range rounds {
			took := make([][]time.Duration, len(measuredOrgs))
			for range times {
				for i, p := range measuredOrgs {
					filter, slice := questions(p.populated)[name]()
					began := time.Now()
					page, err := p.Contacts.List(t.Context(), p.org, p.account, filter, slice)
					took[i] = append(took[i], time.Since(began))
					require.NoError(t, err)
					rows[i] += len(page.Items)
				}
			}
			for i := range measuredOrgs {
				halves[i], slowest[i] = append(halves[i], quantile(took[i], 50)), append(slowest[i], quantile(took[i], 99))
			}
		}
		for i := range measuredOrgs {
			all[name] = append(all[name], measured{
				p50: quantile(halves[i], 50), p99: quantile(slowest[i], 50), rows: float64(rows[i]) / float64(rounds*times),
			})
		}
	}
	return all
}

func quantile(of []time.Duration, percent int) time.Duration {
	slices.Sort(of)
	return of[len(of)*percent/100]
}

// newWorld returns a cell, and a connection that fills its database directly.
func newWorld(t *testing.T) (*factory.World, *pgx.Conn) {
	t.Helper()
	url := pgtest.URL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, Name: "million", MaxConns: 4, StatementTimeout: 5 * time.Minute})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return factory.On(t, db), conn
}

// TestProof_AMillion compares lists, filters and searches among a million contacts of a
// thousand organizations, one of which has 300,000, with the same among 10,000.
func TestProof_AMillion(t *testing.T) { //nolint:paralleltest // measures
	if os.Getenv("PARLEY_PROOF") != "full" {
		t.Skip("PARLEY_PROOF=full")
	}
	smallWorld, connSmall := newWorld(t)
	world, connWorld := newWorld(t)
	small, large, beside := populate(t, smallWorld, connSmall, 10_000), populate(t, world, connWorld, 300_000), populate(t, world, connWorld, 10_000)
	for range 998 {
		populate(t, world, connWorld, 690)
	}
	for _, conn := range []*pgx.Conn{connSmall, connWorld} {
		for _, table := range []string{"contacts", "contact_keys", "contact_labels", "labels"} {
			_, err := conn.Exec(t.Context(), `VACUUM (ANALYZE) `+table)
			require.NoError(t, err)
		}
	}
	measuredOrgs := []measuredOrg{{smallWorld, small}, {world, large}, {world, beside}}
	compare(t, 1, 20, measuredOrgs...)
	all := compare(t, 9, 300, measuredOrgs...)
	t.Logf("%-20s %10s %10s %10s %6s %6s %6s   %s", "p99", "of 10k", "300k of 1M", "10k of 1M", "ratio", "of p50", "ratio", "contacts in an answer")
	var late []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		alone, in, by := all[name][0], all[name][1], all[name][2]
		ratio := float64(in.p99) / float64(alone.p99)
		t.Logf("%-20s %10s %10s %10s %6.2f %6.2f %6.2f   %.1f, %.1f", name,
			alone.p99.Round(time.Microsecond), in.p99.Round(time.Microsecond), by.p99.Round(time.Microsecond),
			ratio, float64(in.p50)/float64(alone.p50), float64(by.p99)/float64(alone.p99), alone.rows, in.rows)
		if ratio > 1.5 && in.rows < 2*alone.rows { // a longer page may take longer
			late = append(late, name)
		}
	}
	require.Empty(t, late, "slower than 1.5 times among a million, with no more to answer")
}

func parsed(text string) *contacts.ID {
	id := new(contacts.ID)
	if err := id.UnmarshalText([]byte(strings.Replace(text, "x_", "ctc_", 1))); err != nil {
		panic(err)
	}
	return id
}

type contactKind struct{}

func (contactKind) Prefix() string { return "x_" }
