package schema

import "slices"

// Exit is how personal data leaves when its contact is deleted, or its number is disconnected.
type Exit string

const (
	// Deleted: with the contact, or by the purge of the number.
	Deleted Exit = "deleted"
	// Expires: later, when its period ends.
	Expires Exit = "expires"
	// Stays: it is about somebody else, such as a member of the organization.
	Stays Exit = "stays"
)

// Holding is a table, or a place in the bucket or in Redis, with what it holds of people. A test compares the tables with the
// database: every column that can hold text is in Personal or in Plain.
type Holding struct {
	// Place is the name of a table (with its schema if that is not public), `bucket: …` or `redis: …`.
	Place string
	// Personal are the columns that tell something about a person: content, names, numbers, and ids by which the provider or
	// strangers find them. Plain are the other columns that can hold text. Ids of our own, numbers and times are in neither.
	Personal, Plain []string
	// Why is the reason for having it; empty without personal data.
	Why string
	// Contact is how it leaves with a contact, Number how it leaves with a number.
	Contact, Number Exit
	// Kept is the longest time that it stays while the contact and the number stay.
	Kept string
}

const (
	history = "the plan's history"
	always  = "until it is deleted"
	// These are columns of many tables.
	businessAccount, phoneNumber = "business_account_id", "phone_number_id"
)

// Personal lists everything that holds, or could hold, personal data.
func Personal() []Holding {
	return slices.Concat(personalOfPeople(), personalOfTraffic(), personalOfMembers(), impersonal())
}

// personalOfPeople lists the people who write to a number, and what they write.
func personalOfPeople() []Holding {
	return []Holding{
		{
			Place: "accounts", Personal: []string{"phone_number", "name"}, Contact: Stays, Number: Deleted, Kept: always,
			Why: "the number and the name that people see",
			Plain: []string{
				businessAccount, phoneNumber, "status", "status_reason", "provider_status", "refusal", "notices", "quality",
				"messaging_limit", "throughput", "token",
			},
		},
		{
			Place: "contacts", Contact: Deleted, Number: Deleted, Kept: always, Why: "the people that the organization writes with",
			Personal: []string{
				"phone_number", "bsuid", "parent_bsuid", "username", "username_key", "name", "name_key", "email", "email_key", "metadata",
				"marketing_source",
			},
			Plain: []string{"marketing", "departure"},
		},
		{Place: "contact_keys", Personal: []string{"key"}, Contact: Deleted, Number: Deleted, Kept: always, Why: "finds a contact"},
		{
			Place: "messages", Contact: Deleted, Number: Deleted, Kept: history, Why: "what was written",
			Personal: []string{"client_reference", "to_number", "to_bsuid", "reply_to", "reaction_target", "content", "body"},
			Plain:    []string{"direction", "type", "source", "category"},
		},
		{
			Place: "message_states", Contact: Deleted, Number: Deleted, Kept: history, Why: "edits, the file, the provider's ids",
			Personal: []string{"provider_id", "second_provider_id", "first_content", "edit_history", "media_key", "error_message"},
			Plain:    []string{"status", "error_code", "media_state", "media_type"},
		},
		{Place: "provider_messages", Personal: []string{"provider_id"}, Contact: Deleted, Number: Deleted, Kept: history, Why: "finds a message"},
		{
			Place: "erased_messages", Personal: []string{"hash"}, Contact: Expires, Number: Expires, Kept: "8 days",
			Why: "keeps a repeated callback from bringing an erased contact back: hashed ids of messages, hashed marketing preferences",
		},
		{
			Place: "parked_statuses", Personal: []string{"provider_id", "status", "body"}, Contact: Expires, Number: Deleted,
			Kept: "15 minutes", Why: "a status or a revocation that came before its message",
		},
		{
			Place: "receipts", Personal: []string{"provider_id"}, Contact: Expires, Number: Deleted, Kept: "20 seconds",
			Why: "a read receipt to send",
		},
		{
			Place: "media_downloads", Personal: []string{"provider_media_id", "url", "sha256", "filename", "key", "event"},
			Plain: []string{"mime_type"}, Contact: Deleted, Number: Deleted, Kept: "6 days", Why: "a file to fetch, and the event that waits for it",
		},
		{Place: "media_deletions", Personal: []string{"key"}, Contact: Expires, Number: Expires, Kept: "an hour", Why: "a file to delete"},
		{Place: "bucket: files of messages", Contact: Deleted, Number: Deleted, Kept: history, Why: "files that people sent"},
	}
}

// personalOfTraffic lists what goes out to organizations, what comes in from the provider, and the logs.
func personalOfTraffic() []Holding {
	return []Holding{
		{
			Place: "events", Personal: []string{"key", "body"}, Plain: []string{"type", "audience", phoneNumber}, Contact: Deleted,
			Number: Deleted, Kept: "30 days, at most the plan's history", Why: "what is posted to the organization",
		},
		{
			Place: "webhook_deliveries", Personal: []string{"event_key", "response_body_snippet"},
			Plain: []string{"event_type", "status", "error_code"}, Contact: Deleted, Number: Deleted,
			Kept: "30 days, at most the plan's history", Why: "what the organization answered",
		},
		{
			Place: "webhook_attempts", Personal: []string{"response_body_snippet"}, Plain: []string{"error_code"}, Contact: Deleted,
			Number: Deleted, Kept: "30 days, at most the plan's history", Why: "what the organization answered",
		},
		{
			Place: "callbacks", Personal: []string{"body"}, Plain: []string{phoneNumber, businessAccount}, Contact: Expires,
			Number: Deleted, Kept: "7 days", Why: "raw callbacks of the provider, to apply them",
		},
		{
			Place: "callback_items", Personal: []string{"body"}, Contact: Expires, Number: Deleted, Kept: "30 days",
			Plain: []string{"state", "reason", "field", phoneNumber, businessAccount}, Why: "what could not be applied",
		},
		{
			Place: "directory.quarantine", Personal: []string{"body"}, Plain: []string{"reason", phoneNumber, businessAccount},
			Contact: Expires, Number: Expires, Kept: "30 days", Why: "callbacks of numbers that nobody has",
		},
		{
			Place: "api_log", Personal: []string{"path", "ip", "user_agent"}, Plain: []string{"method", "route", "code"}, Contact: Expires,
			Number: Expires, Kept: "30 days", Why: "requests, for their organization",
		},
		{
			Place: "idempotency_keys", Personal: []string{"key", "answer"}, Plain: []string{"fingerprint"}, Contact: Expires, Number: Expires,
			Kept: "24 hours", Why: "answers to repeat, sealed",
		},
		{
			Place: "idempotency_leases", Personal: []string{"key"}, Plain: []string{"fingerprint"}, Contact: Expires, Number: Expires,
			Kept: "24 hours", Why: "requests under way",
		},
		{
			Place: "audit_log", Personal: []string{"actor_id", "target", "detail"}, Plain: []string{"actor_kind", "action"}, Contact: Expires,
			Number: Expires, Kept: "400 days", Why: "who did what",
		},
		{
			Place: "redis: rate limits", Contact: Stays, Number: Stays, Kept: "until the limit is full again",
			Why: "ids of organizations, nothing of people; addresses of failed authentications are counted in the process",
		},
	}
}

// personalOfMembers lists what belongs to the organization itself: its members, its customers, its files.
func personalOfMembers() []Holding {
	member := func(place, why string, personal []string, plain ...string) Holding {
		return Holding{Place: place, Personal: personal, Plain: plain, Contact: Stays, Number: Stays, Kept: always, Why: why}
	}
	return []Holding{
		member("users", "members of the organization", []string{"name", "email", "email_key"}),
		member("customers", "customers of the organization", []string{"name", "name_key", "email", "email_key", "metadata"},
			"status", "previous_status"),
		member("library_files", "files that the organization sends", []string{"filename", "key"}, "type", "mime_type"),
		member("bucket: library", "files that the organization sends", nil),
		member("holds", "the operator who held the cell", []string{"held_by", "released_by"}, "timeline", "unsent"),
	}
}

// impersonal lists the tables without personal data: ids of our own, settings, content that the organization publishes.
func impersonal() []Holding {
	var all []Holding
	for place, plain := range map[string][]string{
		"api_keys": {"name", "hash", "last4"}, "organizations": {"name", "plan", "subscription_status", "stop_keywords"},
		"plans": {"name"}, "teams": {"name"}, "team_members": nil, "labels": {"name", "name_key", "color"}, "contact_labels": nil,
		"conversation_labels": nil, "conversations": {"status", "departure"}, "send_attempts": {"outcome", "error_code"},
		"send_pairs": nil, "send_minutes": nil, "quota_usage": {"allowances"}, "media_uploads": {"provider_media_id"},
		"media_waiting": {"files"}, "template_syncs": nil,
		"templates": {
			"provider_template_id", "name", "language", "status", "provider_status", "category", "parameter_format", "content", "variables",
			"components", "rejection_reason", "quality", "digest", "said",
		},
		"setup_links":     {"token_hash", "token_last4", "session_hash", "success_redirect_url", "failure_redirect_url"},
		"webhook_replays": {"event_type"}, "webhook_forgets": nil, "webhook_secrets": {"sealed"},
		"webhook_subscriptions": {"url", "description", "events", "phone_number_ids", "status", "disabled_reason"},
		"lanes":                 {"kind"}, "lanes_moving": {"kind"}, "lane_rows": nil, "lane_rows_moving": nil,
		"lane_keys": nil, "lane_keys_moving": nil,
		"lane_faults": {"class", "reason"}, "lane_faults_moving": {"class", "reason"}, "master_key_check": {"sealed"},
		"expiry_rounds": nil, "schema_migrations": nil,
		"directory.cells": {"name"}, "directory.org_routes": {"cell", "state"},
		"directory.routes": {"kind", "key", "state", businessAccount}, "directory.schema_migrations": nil,
		"river.river_job":    {"args", "attempted_by", "errors", "kind", "metadata", "queue", "tags", "unique_key"},
		"river.river_leader": {"leader_id", "name"}, "river.river_migration": {"line"},
		"river.river_notification": {"payload", "topic"}, "river.river_queue": {"name", "metadata"},
	} {
		all = append(all, Holding{Place: place, Plain: plain, Contact: Stays, Number: Stays, Kept: always})
	}
	return all
}
