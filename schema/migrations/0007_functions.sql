-- +goose Up

-- Functions that statements of several nouns call.

-- The number of an organization's advisory lock.
-- +goose StatementBegin
CREATE FUNCTION organization_lock(org uuid) RETURNS bigint IMMUTABLE LANGUAGE sql
    RETURN ('x' || right(replace(org::text, '-', ''), 16))::bit(64)::bigint;
-- +goose StatementEnd

-- The first statement of every transaction of an organization. It takes a shared lock that
-- close_organization takes exclusively, so that no transaction can write to a frozen organization.
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

-- The first statement of every transaction that crosses organizations; its statements skip frozen
-- ones.
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

-- An id made by the database, for rows that a statement makes from other rows: 48 bits of
-- time in milliseconds, then 80 random bits. The body has no FROM, so that the planner inlines
-- it; a function that is not inlined is parsed and planned in every statement that calls it.
CREATE FUNCTION ulid(at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (
        lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0')
        || right(gen_random_uuid()::text, 12) || left(gen_random_uuid()::text, 8)
    )::uuid;
