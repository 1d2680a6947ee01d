-- +goose Up

-- Processes count accepted messages in memory and add them to `used` every second. A process may
-- hold back as much as its allowance; the rest of the processes leave that much free.
ALTER TABLE quota_usage
    -- By process: { "size": messages, "until": time }.
    ADD COLUMN allowances jsonb NOT NULL DEFAULT '{}',
    -- The sum of the allowances, and when the last of them expires; null without allowances.
    ADD COLUMN allowed bigint NOT NULL DEFAULT 0 CHECK (allowed >= 0),
    ADD COLUMN allowed_until timestamptz,
    -- Until then no process gets an allowance, because a reservation did not fit beside them.
    ADD COLUMN exact_until timestamptz,
    -- When the month's messages are counted the next time; null after the last time.
    ADD COLUMN due_at timestamptz,
    -- How often they were counted. Of recounts that run at the same time only the first adds.
    ADD COLUMN recounts integer NOT NULL DEFAULT 0;

CREATE INDEX quota_usage_due ON quota_usage (due_at);
