-- +goose Up

-- A known text that the first process with a master key sealed under it. A process whose keys do not open it
-- has other keys than the processes before.
CREATE TABLE master_key_check (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    sealed bytea NOT NULL
);
