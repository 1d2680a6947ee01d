-- +goose Up

-- When the last attempt began, kept after its result is known, and when the provider took it by its answer: null
-- if it did not, or if a callback proved the send. The timeline of a message shows both. No index has them, so
-- that updates stay HOT.
ALTER TABLE message_states
    ADD COLUMN last_begun_at timestamptz,
    ADD COLUMN answered_at timestamptz;
