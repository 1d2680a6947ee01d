// Package schema holds the migrations, and lists of the tables by their properties. Every table is
// in exactly one of the lists Tenant and System; a test compares the lists with the database.
package schema

import (
	"embed"
	"io/fs"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

//go:embed migrations/*.sql directory/*.sql
var files embed.FS

// Migrations returns the migrations of a cell. Its tables are in the schema public.
func Migrations() postgres.Migrations {
	return postgres.Migrations{Files: folder("migrations"), Schema: "public"}
}

// Directory returns the migrations of the directory. Its tables are in a schema of their own,
// because it may share a database with a cell.
func Directory() postgres.Migrations {
	return postgres.Migrations{Files: folder("directory"), Schema: "directory"}
}

func folder(name string) fs.FS {
	migrations, err := fs.Sub(files, name)
	if err != nil {
		panic(err)
	}
	return migrations
}

// EnterOrganization returns the first statement of every transaction of an organization. It waits
// only for a transaction that freezes the organization, and fails when the organization is frozen
// or not in this database.
func EnterOrganization(org ids.Org) string {
	return "SELECT enter_organization('" + org.String() + "')"
}

// EnterAll returns the first statement of every transaction that crosses organizations.
func EnterAll() string { return "SELECT enter_all_organizations()" }

// Tenant lists the tables whose rows belong to an organization. org_id is the first
// column of each of their keys, and every statement on them binds it.
func Tenant() []string {
	return []string{
		"organizations", "teams", "users", "team_members", "quota_usage",
		"api_keys", "audit_log", "idempotency_keys", "idempotency_leases", "api_log", "labels",
		"customers", "setup_links", "accounts", "events", "webhook_subscriptions", "webhook_secrets", "webhook_deliveries",
		"webhook_attempts", "webhook_replays", "webhook_forgets", "contacts", "contact_keys", "contact_labels", "templates", "template_syncs",
		"conversations", "conversation_labels",
		"messages", "message_states", "send_attempts", "provider_messages", "erased_messages", "parked_statuses", "receipts",
		"send_pairs", "library_files", "media_waiting", "media_uploads", "media_downloads", "media_deletions",
		"callbacks", "callback_items",
		"lanes_moving", "lane_rows_moving", "lane_keys_moving", "lane_faults_moving",
	}
}

// LockOrder is the order in which every transaction locks tables; ARCHITECTURE.md says why each
// has its place. The name of a table that is locked at two places goes on after a space at one of
// them. Rows of lane_rows, lane_keys and lane_faults are locked only by statements that hold the
// lock of their lane or lock nothing else, so that these tables need no place.
func LockOrder() []string {
	return []string{
		"organizations", "idempotency_keys", "idempotency_leases", "lanes",
		"lanes_moving", "lane_rows_moving", "lane_keys_moving", "lane_faults_moving",
		"quota_usage", "api_keys", "teams", "users", "team_members", "labels", "library_files", "customers", "setup_links",
		"webhook_subscriptions", "webhook_secrets", "webhook_replays", "webhook_forgets",
		"contact_keys by hash", "contacts", "contact_keys", "contact_labels", "conversations", "conversation_labels",
		"template_syncs", "templates", "accounts",
		"messages", "message_states", "receipts", "parked_statuses", "send_attempts", "provider_messages", "erased_messages", "send_pairs",
		"media_waiting", "media_uploads", "media_downloads", "media_deletions",
		"events", "webhook_deliveries", "webhook_attempts", "callbacks", "callback_items",
		"audit_log", "api_log", "lanes to arm",
	}
}

// System lists the tables that belong to no organization, or are derived from those that do.
func System() []string {
	return []string{
		"plans", "schema_migrations", "lanes", "lane_rows", "lane_keys", "lane_faults", "send_minutes", "master_key_check", "expiry_rounds",
		"holds",
	}
}

const day = 24 * time.Hour

// Partitioned lists the tables that are partitioned by time, and how long each keeps its rows.
func Partitioned() []postgres.Partitioned {
	return []postgres.Partitioned{
		{Table: "audit_log", Every: postgres.Monthly, Keep: 400 * day},
		{Table: "idempotency_keys", Every: postgres.Daily, ByTime: true, Keep: day},
		{Table: "idempotency_leases", Every: postgres.Daily, ByTime: true, Keep: day},
		{Table: "api_log", Every: postgres.Daily, Keep: 30 * day},
		{Table: "messages", Every: postgres.Monthly},
		{Table: "message_states", Every: postgres.Monthly, Fillfactor: 40},
		{Table: "send_attempts", Every: postgres.Monthly},
		{Table: "events", Every: postgres.Weekly, Keep: 30 * day},
		{Table: "webhook_deliveries", Every: postgres.Weekly, Keep: 30 * day, Fillfactor: 50},
		{Table: "webhook_attempts", Every: postgres.Weekly, Keep: 30 * day},
		{Table: "callbacks", Every: postgres.Daily, Keep: 7 * day},
		{Table: "callback_items", Every: postgres.Weekly, Keep: 30 * day},
	}
}
