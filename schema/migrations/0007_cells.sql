-- +goose Up

-- The epoch grows with each move to another cell; a router that knows an older one is
-- refused. A frozen organization is being moved, or has moved away.
ALTER TABLE organizations
    ADD COLUMN epoch bigint NOT NULL DEFAULT 1,
    ADD COLUMN frozen_at timestamptz;

-- A key is looked up in the organization that the directory names.
DROP INDEX api_keys_hash;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_hash_unique UNIQUE (org_id, hash);

-- +goose StatementBegin
CREATE FUNCTION organization_lock(org uuid) RETURNS bigint IMMUTABLE LANGUAGE sql
    RETURN ('x' || right(replace(org::text, '-', ''), 16))::bit(64)::bigint;
-- +goose StatementEnd

-- Every transaction of an organization starts here. Whoever freezes the organization takes
-- the lock alone: from then on no transaction that could still write is under way.
-- +goose StatementBegin
CREATE FUNCTION enter_organization(org uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(organization_lock(org));
    PERFORM FROM organizations WHERE org_id = org AND frozen_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'organization % is not open here', org USING ERRCODE = 'PF001';
    END IF;
END
$$;
-- +goose StatementEnd

-- Transactions that cross organizations start here, and leave frozen ones alone.
-- +goose StatementBegin
CREATE FUNCTION enter_all_organizations() RETURNS void LANGUAGE sql
    BEGIN ATOMIC SELECT pg_advisory_xact_lock_shared(0); END;
-- +goose StatementEnd

-- Waits until every transaction that could write to the organization has ended.
-- +goose StatementBegin
CREATE FUNCTION close_organization(org uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(organization_lock(org));
    PERFORM pg_advisory_xact_lock(0);
END
$$;
-- +goose StatementEnd

-- Rows of the audit log may leave with their organization.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('parley.purge', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
