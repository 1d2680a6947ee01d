-- +goose Up

-- The conversation with a contact: one for ever.
CREATE TABLE conversations (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    contact_id uuid NOT NULL,
    status text NOT NULL CHECK (status IN ('open', 'resolved', 'pending')),
    assignee_id uuid,
    unread_count integer NOT NULL CHECK (unread_count >= 0),
    last_message_at timestamptz,
    last_inbound_at timestamptz,
    -- The message of last_message_at.
    last_message_id uuid,
    -- The order of the inbox: those without a message are last.
    recent_at timestamptz NOT NULL GENERATED ALWAYS AS (coalesce(last_message_at, '-infinity')) STORED,
    -- Grows with each change.
    updated_at timestamptz NOT NULL,
    -- Null for a live conversation. One whose contact is being erased is visible only to the job
    -- that erases it. One that was merged into another stays as an alias of it.
    departure text CHECK (departure IN ('erasing', 'joined')),
    joined_into uuid,
    PRIMARY KEY (org_id, id),
    CONSTRAINT conversations_contact_unique UNIQUE (org_id, contact_id),
    FOREIGN KEY (org_id, account_id) REFERENCES accounts,
    FOREIGN KEY (org_id, contact_id) REFERENCES contacts,
    FOREIGN KEY (org_id, assignee_id) REFERENCES users,
    FOREIGN KEY (org_id, joined_into) REFERENCES conversations ON DELETE CASCADE,
    CHECK ((joined_into IS NOT NULL) = (coalesce(departure, '') = 'joined'))
) WITH (fillfactor = 80);

-- As for contacts: each index is partial on its own column, so that a statement that does not
-- name the column cannot use it.
CREATE INDEX conversations_recent ON conversations (org_id, account_id, recent_at DESC, id DESC)
    WHERE departure IS NULL AND recent_at IS NOT NULL;
CREATE INDEX conversations_updated ON conversations (org_id, account_id, updated_at DESC, id DESC)
    WHERE departure IS NULL AND updated_at IS NOT NULL;
CREATE INDEX conversations_status ON conversations (org_id, account_id, status, recent_at DESC, id DESC)
    WHERE departure IS NULL AND status IS NOT NULL;
CREATE INDEX conversations_assignee ON conversations (org_id, account_id, assignee_id, recent_at DESC, id DESC)
    WHERE departure IS NULL AND assignee_id IS NOT NULL;
CREATE INDEX conversations_unread ON conversations (org_id, account_id, recent_at DESC, id DESC)
    WHERE departure IS NULL AND unread_count > 0;
CREATE INDEX conversations_joined ON conversations (org_id, joined_into) WHERE joined_into IS NOT NULL;

CREATE TABLE conversation_labels (
    org_id uuid NOT NULL,
    conversation_id uuid NOT NULL,
    label_id uuid NOT NULL,
    account_id uuid NOT NULL,
    PRIMARY KEY (org_id, conversation_id, label_id),
    FOREIGN KEY (org_id, conversation_id) REFERENCES conversations ON DELETE CASCADE,
    FOREIGN KEY (org_id, label_id) REFERENCES labels ON DELETE CASCADE
);

CREATE INDEX conversation_labels_label ON conversation_labels (org_id, label_id, account_id, conversation_id);
