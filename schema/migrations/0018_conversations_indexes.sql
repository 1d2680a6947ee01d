-- +goose Up

-- Like those of contacts: an index answers no question that does not name its column.
DROP INDEX conversations_recent, conversations_updated, conversations_status;
CREATE INDEX conversations_recent ON conversations (org_id, account_id, recent_at DESC, id DESC)
    WHERE departure IS NULL AND recent_at IS NOT NULL;
CREATE INDEX conversations_updated ON conversations (org_id, account_id, updated_at DESC, id DESC)
    WHERE departure IS NULL AND updated_at IS NOT NULL;
CREATE INDEX conversations_status ON conversations (org_id, account_id, status, recent_at DESC, id DESC)
    WHERE departure IS NULL AND status IS NOT NULL;
