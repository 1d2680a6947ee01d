-- +goose Up

-- When expired partitions were last dropped. A clock that is days ahead of it may be wrong, and would drop
-- history that must be kept.
CREATE TABLE expiry_rounds (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    at timestamptz NOT NULL
);
