-- +goose Up

-- While a table is small all its indexes look equally cheap to the planner, and a prepared statement
-- keeps the plan of that time: it read every row of the organization by an index of which it knows the
-- first column alone, until the table was analyzed. As for contacts, each index is partial on a column
-- that is never null: a statement that does not name the column cannot use the index.
DROP INDEX contact_keys_contact;
CREATE INDEX contact_keys_contact ON contact_keys (org_id, contact_id) WHERE contact_id IS NOT NULL;

ALTER TABLE conversations DROP CONSTRAINT conversations_contact_unique;
CREATE UNIQUE INDEX conversations_contact_unique ON conversations (org_id, contact_id) WHERE contact_id IS NOT NULL;

DROP INDEX messages_account;
CREATE INDEX messages_account ON messages (org_id, account_id, id) WHERE account_id IS NOT NULL;
DROP INDEX messages_conversation;
CREATE INDEX messages_conversation ON messages (org_id, conversation_id, id) WHERE conversation_id IS NOT NULL;

DROP INDEX webhook_attempts_delivery;
CREATE INDEX webhook_attempts_delivery ON webhook_attempts (org_id, delivery_id, attempt) WHERE delivery_id IS NOT NULL;
DROP INDEX webhook_deliveries_event;
CREATE INDEX webhook_deliveries_event ON webhook_deliveries (org_id, event_key, id) WHERE event_key IS NOT NULL;
DROP INDEX webhook_deliveries_subscription;
CREATE INDEX webhook_deliveries_subscription ON webhook_deliveries (org_id, subscription_id, id) WHERE subscription_id IS NOT NULL;
