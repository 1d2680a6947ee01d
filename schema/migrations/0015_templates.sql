-- +goose Up

-- A message template as one business number has it. Numbers of one business account have
-- rows of their own for the same template of the provider's.
CREATE TABLE templates (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    provider_template_id text COLLATE "C",
    name text NOT NULL COLLATE "C",
    language text NOT NULL COLLATE "C",
    -- The status in the words of the specification.
    status text NOT NULL CHECK (status IN ('pending', 'approved', 'rejected')),
    provider_status text,
    category text,
    parameter_format text,
    content text NOT NULL,
    variables text[] NOT NULL,
    -- The text of the provider: jsonb would reorder keys and rewrite numbers.
    components json NOT NULL,
    rejection_reason text,
    quality text,
    -- A hash of all values that the provider can change, to detect changes.
    digest bytea NOT NULL,
    -- The time of the newest notification of each kind, and when the last one arrived.
    said jsonb NOT NULL DEFAULT '{}',
    heard_at timestamptz,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, id),
    UNIQUE (org_id, account_id, name, language),
    FOREIGN KEY (org_id, account_id) REFERENCES accounts
);

CREATE INDEX templates_newest ON templates (org_id, account_id, id);
CREATE INDEX templates_status ON templates (org_id, account_id, status, id);
CREATE INDEX templates_provider ON templates (org_id, provider_template_id);

-- When the templates of a number are synced next.
CREATE TABLE template_syncs (
    org_id uuid NOT NULL,
    account_id uuid NOT NULL,
    due_at timestamptz NOT NULL,
    synced_at timestamptz,
    PRIMARY KEY (org_id, account_id),
    FOREIGN KEY (org_id, account_id) REFERENCES accounts ON DELETE CASCADE
);

CREATE INDEX template_syncs_due ON template_syncs (due_at);
