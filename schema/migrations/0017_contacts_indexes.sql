-- +goose Up

-- A list finds contacts by one of these indexes, and the planner, which takes an account of
-- average size for one contact, thinks all of them equally good. So each holds only those
-- with a value in the column that it is for, and can answer no question that does not name
-- that column; a column that is never null is named for this reason alone.
DROP INDEX contacts_newest, contacts_name, contacts_number, contacts_username, contacts_email, contacts_updated;
CREATE INDEX contacts_newest ON contacts (org_id, account_id, id) WHERE departure IS NULL AND id IS NOT NULL;
CREATE INDEX contacts_name ON contacts (org_id, account_id, name_key, id) WHERE departure IS NULL AND name_key IS NOT NULL;
CREATE INDEX contacts_number ON contacts (org_id, account_id, phone_number, id) WHERE departure IS NULL AND phone_number IS NOT NULL;
CREATE INDEX contacts_username ON contacts (org_id, account_id, username_key, id) WHERE departure IS NULL AND username_key IS NOT NULL;
CREATE INDEX contacts_email ON contacts (org_id, account_id, email_key, id) WHERE departure IS NULL AND email_key IS NOT NULL;
CREATE INDEX contacts_updated ON contacts (org_id, account_id, updated_at, id) WHERE departure IS NULL AND updated_at IS NOT NULL;
