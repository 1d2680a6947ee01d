-- +goose Up

-- The audit log: principal and action. Rows are only inserted; retention drops whole months.
CREATE TABLE audit_log (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    actor_kind text NOT NULL CHECK (actor_kind IN ('key', 'user', 'system')),
    actor_id text,
    action text NOT NULL,
    target text NOT NULL,
    detail jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);

-- Rows of the audit log are deleted only when their whole organization is purged.
-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('parley.purge', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
