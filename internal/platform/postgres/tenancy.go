package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Tenancy is a tracer for tests. It reports every statement that names a tenant table without a
// condition on the organization.
type Tenancy struct {
	onlyStarts

	tables map[string]bool
	known  *readings
	report func(fault string)
}

// NewTenancy returns a tracer of the tenant tables that reports each fault as a sentence.
func NewTenancy(tenantTables []string, report func(fault string)) *Tenancy {
	tables := make(map[string]bool, len(tenantTables))
	for _, table := range tenantTables {
		tables[table] = true
	}
	return &Tenancy{tables: tables, known: readingsFor("tenancy", tenantTables), report: report}
}

// TraceQueryStart checks each statement before it runs.
func (t *Tenancy) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	t.look(ctx, data.SQL)
	return ctx
}

// TraceBatchStart looks at each statement of a batch.
func (t *Tenancy) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, queued := range data.Batch.QueuedQueries {
		t.look(ctx, queued.SQL)
	}
	return ctx
}

// TraceCopyFromStart refuses COPY into a tenant table outside the system accessor.
func (t *Tenancy) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	t.look(ctx, "COPY INTO "+data.TableName.Sanitize())
	return ctx
}

// TraceCopyFromEnd has nothing to add.
func (*Tenancy) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

// onlyStarts is the part of a tracer that looks at statements only before they run.
type onlyStarts struct{}

// TraceQueryEnd does nothing.
func (onlyStarts) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchQuery does nothing.
func (onlyStarts) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd does nothing.
func (onlyStarts) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (t *Tenancy) look(ctx context.Context, sql string) {
	m, _ := ctx.Value(markKey{}).(mark)
	if m.system != "" {
		return
	}
	if fault := t.known.of(sql, func() reading { return reading{fault: t.fault(sql)} }).fault; fault != "" {
		t.report(fmt.Sprintf("%s: %s", fault, strings.Join(strings.Fields(sql), " ")))
	}
}

var (
	sqlNoise   = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'`)
	sqlTable   = regexp.MustCompile(`(?i)\b(?:FROM|JOIN|UPDATE|INTO|USING)\s+(?:ONLY\s+)?(?:"?public"?\.)?"?([a-z_][a-z0-9_]*)"?`)
	sqlInsert  = regexp.MustCompile(`(?is)\bINTO\s+"?[a-z_0-9]+"?(?:\s+AS\s+[a-z_]+)?\s*\(\s*org_id\b`)
	sqlComma   = regexp.MustCompile(`(?i)\b(?:FROM|JOIN)\s+[a-z_.]+(?:\s+(?:AS\s+)?[a-z_]+)?\s*,\s*([a-z_]+)`)
	sqlBinding = regexp.MustCompile(`(?i)\borg_id\s*=\s*@org_id\b`)
	sqlTie     = regexp.MustCompile(`(?i)\borg_id\s*=\s*[a-z_]+\.org_id\b|\bUSING\s*\(\s*org_id\b`)
	sqlGiven   = regexp.MustCompile(`(?i)@org_id::uuid\s+AS\s+org_id\b`)
	sqlOwnOrg  = regexp.MustCompile(`@org_id\b`)
)

// fault counts tenant tables and conditions on org_id. Each table needs one: org_id compared with
// a parameter, compared with that of another table or of a subquery that gives the parameter this
// name, or inserted as the first column.
func (t *Tenancy) fault(sql string) string {
	text := sqlNoise.ReplaceAllString(sql, " ")
	for _, match := range sqlComma.FindAllStringSubmatch(text, -1) {
		if t.tables[strings.ToLower(match[1])] {
			return fmt.Sprintf("a statement joins tenant table %s by a comma: write JOIN … ON", match[1])
		}
	}
	named := 0
	first := ""
	for _, match := range sqlTable.FindAllStringSubmatch(text, -1) {
		if t.tables[strings.ToLower(match[1])] {
			named++
			first = match[1]
		}
	}
	if named == 0 {
		return ""
	}
	bindings := len(sqlBinding.FindAllString(text, -1))
	inserts := len(sqlInsert.FindAllString(text, -1))
	ties := len(sqlTie.FindAllString(text, -1))
	bound := bindings > 0 || inserts > 0 && sqlOwnOrg.MatchString(text) || ties > 0 && sqlGiven.MatchString(text)
	switch {
	case !bound:
		return fmt.Sprintf("a statement on tenant table %s binds no org_id", first)
	case bindings+inserts+ties < named:
		return fmt.Sprintf("a statement names %d tenant tables and ties only %d of them to an org_id", named, bindings+inserts+ties)
	}
	return ""
}
