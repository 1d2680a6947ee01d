-- +goose Up

-- A person as one business number knows them.
CREATE TABLE contacts (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    -- The current identifiers of the person; contact_keys also holds former ones.
    phone_number text COLLATE "C",
    bsuid text,
    parent_bsuid text,
    username text,
    username_key text COLLATE "C",
    name text,
    name_key text COLLATE "C",
    email text,
    email_key text COLLATE "C",
    -- The text of the caller: jsonb would reorder keys and rewrite numbers.
    metadata json,
    marketing text NOT NULL CHECK (marketing IN ('opted_in', 'opted_out', 'unknown')),
    marketing_at timestamptz,
    marketing_source text,
    -- Grows with each change.
    updated_at timestamptz NOT NULL,
    -- Null for a live contact. A contact that is being erased is visible only to the job that
    -- erases its data. A contact that was merged into another stays as an alias of it.
    departure text CHECK (departure IN ('erasing', 'joining', 'joined')),
    joined_into uuid,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, account_id) REFERENCES accounts,
    FOREIGN KEY (org_id, joined_into) REFERENCES contacts ON DELETE CASCADE,
    CHECK ((joined_into IS NOT NULL) = (coalesce(departure, '') IN ('joining', 'joined')))
);

-- A list is in the order of the ids; every index that narrows it ends in the id.
-- The planner estimates one contact per account, so all these indexes look equally cheap to
-- it. Each is therefore partial on its own column: a statement that does not name the column
-- cannot use the index. The condition on a column that is never null exists only for this.
CREATE INDEX contacts_newest ON contacts (org_id, account_id, id) WHERE departure IS NULL AND id IS NOT NULL;
CREATE INDEX contacts_name ON contacts (org_id, account_id, name_key, id) WHERE departure IS NULL AND name_key IS NOT NULL;
CREATE INDEX contacts_number ON contacts (org_id, account_id, phone_number, id) WHERE departure IS NULL AND phone_number IS NOT NULL;
CREATE INDEX contacts_username ON contacts (org_id, account_id, username_key, id) WHERE departure IS NULL AND username_key IS NOT NULL;
CREATE INDEX contacts_email ON contacts (org_id, account_id, email_key, id) WHERE departure IS NULL AND email_key IS NOT NULL;
CREATE INDEX contacts_updated ON contacts (org_id, account_id, updated_at, id) WHERE departure IS NULL AND updated_at IS NOT NULL;
CREATE INDEX contacts_joined ON contacts (org_id, joined_into) WHERE joined_into IS NOT NULL;
CREATE INDEX contacts_departing ON contacts (org_id, id) WHERE departure IN ('erasing', 'joining');

-- The contact of an identifier: n and a number's digits, b and a BSUID, p and a parent BSUID.
-- The national forms of a number are one key.
CREATE TABLE contact_keys (
    org_id uuid NOT NULL,
    account_id uuid NOT NULL,
    key text NOT NULL COLLATE "C",
    contact_id uuid NOT NULL,
    since timestamptz NOT NULL,
    -- When the identifier stopped to name the person. Older sightings that arrive late still use it.
    retired_at timestamptz,
    PRIMARY KEY (org_id, account_id, key),
    FOREIGN KEY (org_id, contact_id) REFERENCES contacts ON DELETE CASCADE
);

CREATE INDEX contact_keys_contact ON contact_keys (org_id, contact_id);

CREATE TABLE contact_labels (
    org_id uuid NOT NULL,
    contact_id uuid NOT NULL,
    label_id uuid NOT NULL,
    account_id uuid NOT NULL,
    PRIMARY KEY (org_id, contact_id, label_id),
    FOREIGN KEY (org_id, contact_id) REFERENCES contacts ON DELETE CASCADE,
    FOREIGN KEY (org_id, label_id) REFERENCES labels ON DELETE CASCADE
);

CREATE INDEX contact_labels_label ON contact_labels (org_id, label_id, account_id, contact_id);
