-- +goose Up

-- Numbers get the lanes of their sends and of their files when they are connected. Those that were
-- connected before these lanes existed get them here. The id of the second is media.laneOf.
INSERT INTO lanes (lane_id, org_id, kind)
SELECT id, org_id, 'sends' FROM accounts WHERE deleted_at IS NULL
UNION ALL
SELECT encode(substring(sha256(convert_to('media of ' || id, 'UTF8')) FOR 16), 'hex')::uuid, org_id, 'media'
FROM accounts WHERE deleted_at IS NULL
ON CONFLICT (lane_id) DO NOTHING;
