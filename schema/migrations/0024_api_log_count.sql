-- +goose Up

-- How many requests a row stands for: more than one only when requests without a valid key came too fast to be
-- written one by one.
ALTER TABLE api_log ADD COLUMN count integer NOT NULL DEFAULT 1;
