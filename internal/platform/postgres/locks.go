package postgres

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Locks is a tracer for tests: it reports every transaction that locks tables in another order
// than the given one. Of each table only the first statement that locks it counts. A plain INSERT
// is no lock here, nor is SKIP LOCKED, which does not wait, and the locks that foreign keys take are not seen.
//
// A statement declares its locks in its first line, `-- locks: events, webhook_deliveries`, if it
// locks several tables (they are not locked in the order of its text), if it takes an advisory
// lock, or if it locks a table at the second of its two places in the order. The name of such a
// place begins with the table and a space: `lanes to arm`. `-- locks: own rows` declares that a statement locks only
// rows that its transaction inserted, which no other transaction can see.
type Locks struct {
	onlyStarts

	order  []string
	known  *readings
	report func(fault string)
}

// NewLocks takes the order, and reports each fault as a sentence.
func NewLocks(order []string, report func(fault string)) *Locks {
	return &Locks{order: order, known: readingsFor("locks", order), report: report}
}

// TraceQueryStart looks at each statement before it runs.
func (l *Locks) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	l.look(transactionOf(conn), data.SQL)
	return ctx
}

// TraceBatchStart looks at each statement of a batch, which runs in one transaction.
func (l *Locks) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	transaction := transactionOf(conn)
	for _, queued := range data.Batch.QueuedQueries {
		l.look(transaction, queued.SQL)
	}
	return ctx
}

// locked is what a transaction has locked so far. Last is the greatest of their places.
type locked struct {
	names map[string]bool
	last  int
}

// transactionOf begins a new transaction with each statement on an idle connection.
func transactionOf(conn *pgx.Conn) *locked {
	const key, idle = "lock order", 'I'
	data := conn.PgConn().CustomData()
	if _, found := data[key]; !found || conn.PgConn().TxStatus() == idle {
		data[key] = &locked{names: map[string]bool{}}
	}
	return data[key].(*locked) //nolint:forcetypeassert // the key is only used here
}

func (l *Locks) look(transaction *locked, sql string) {
	read := l.known.of(sql, func() reading {
		names, fault := l.locks(sql)
		return reading{names: names, fault: fault}
	})
	fault := read.fault
	for _, name := range read.names {
		place := slices.Index(l.order, name)
		if place < transaction.last && !transaction.names[name] {
			fault = fmt.Sprintf("a transaction locks %s after %s, see LockOrder in schema/schema.go", name, l.order[transaction.last])
		}
		transaction.names[name], transaction.last = true, max(transaction.last, place)
	}
	if fault != "" {
		l.report(fmt.Sprintf("%s: %s", fault, strings.Join(strings.Fields(sql), " ")))
	}
}

var (
	sqlDeclared = regexp.MustCompile(`\A\s*-- locks: ([^\n]+)`)
	sqlWritten  = regexp.MustCompile(`(?i)\b(?:UPDATE|DELETE\s+FROM)\s+(?:ONLY\s+)?(?:"?public"?\.)?"?([a-z_][a-z0-9_]*)"?`)
	sqlUpsert   = regexp.MustCompile(`(?i)\bDO\s+UPDATE\b`)
	sqlInto     = regexp.MustCompile(`(?i)\bINTO\s+(?:"?public"?\.)?"?([a-z_][a-z0-9_]*)"?`)
	sqlFor      = regexp.MustCompile(`(?i)\bFOR\s+(?:(?:NO\s+KEY\s+)?UPDATE|(?:KEY\s+)?SHARE)\b(?:\s+OF\s+([a-z_]+))?(\s+SKIP\s+LOCKED)?`)
	sqlSource   = regexp.MustCompile(`(?i)\b(?:FROM|JOIN)\s+(?:"?public"?\.)?"?([a-z_][a-z0-9_]*)"?(?:\s+(?:AS\s+)?([a-z_]+))?`)
)

// locks returns the names that a statement locks, in its order.
func (l *Locks) locks(sql string) (names []string, fault string) {
	tables, declared := l.tables(sqlNoise.ReplaceAllString(sql, " ")), sqlDeclared.FindStringSubmatch(sql)
	if declared == nil {
		if names = slices.Sorted(maps.Keys(tables)); len(names) > 1 {
			return nil, fmt.Sprintf("a statement locks %v and must begin with their order, as in `-- locks: a, b`", names)
		}
		return names, ""
	}
	if declared[1] == "own rows" {
		return nil, ""
	}
	names = strings.Split(declared[1], ", ")
	for _, name := range names {
		if !slices.Contains(l.order, name) {
			return nil, fmt.Sprintf("a statement declares %q, which has no place in LockOrder", name)
		}
		table, _, _ := strings.Cut(name, " ")
		delete(tables, table)
	}
	if len(tables) > 0 {
		fault = fmt.Sprintf("a statement locks %v and does not declare it", slices.Sorted(maps.Keys(tables)))
	}
	return names, fault
}

// tables returns the tables of the order that the text of a statement locks.
func (l *Locks) tables(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range sqlWritten.FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	for _, at := range sqlUpsert.FindAllStringIndex(text, -1) {
		for _, into := range sqlInto.FindAllStringSubmatch(queryBefore(text, at[0]), -1) {
			found[into[1]] = true
		}
	}
	for _, at := range sqlFor.FindAllStringSubmatchIndex(text, -1) {
		if at[4] >= 0 {
			continue
		}
		for _, source := range sqlSource.FindAllStringSubmatch(queryBefore(text, at[0]), -1) {
			if at[2] < 0 || slices.Contains(source[1:], text[at[2]:at[3]]) {
				found[source[1]] = true
			}
		}
	}
	maps.DeleteFunc(found, func(table string, _ bool) bool { return !slices.Contains(l.order, table) })
	return found
}

// queryBefore returns the query of a clause, up to the clause and without what is in parentheses.
func queryBefore(text string, at int) string {
	depth, query := 0, []byte{}
	for i := at - 1; i >= 0 && depth >= 0; i-- {
		switch {
		case text[i] == ')':
			depth++
		case text[i] == '(':
			depth--
		case depth == 0:
			query = append(query, text[i])
		}
	}
	slices.Reverse(query)
	return string(query)
}
