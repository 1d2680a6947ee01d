-- +goose Up

-- The same ids as before. A body with a FROM is read, rewritten and planned anew by every
-- statement that calls it, which took longer than the insert it was for; this one becomes
-- part of the statement.
CREATE OR REPLACE FUNCTION ulid(at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (
        lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0')
        || right(gen_random_uuid()::text, 12) || left(gen_random_uuid()::text, 8)
    )::uuid;
