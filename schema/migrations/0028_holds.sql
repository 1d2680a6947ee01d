-- +goose Up

-- The hold of the cell: after its database was restored from a backup, nothing is sent or delivered until an
-- operator releases it. Without a row, or with released_at, nothing is held. timeline is PostgreSQL's at held_at:
-- another one means that the row itself came out of a backup.
CREATE TABLE holds (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    held_at timestamptz NOT NULL,
    held_by text NOT NULL,
    timeline text NOT NULL,
    released_at timestamptz,
    released_by text,
    unsent text CHECK (unsent IN ('wait', 'fail', 'send'))
);
