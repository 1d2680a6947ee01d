package webhooks

import (
	"context"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Two discards in the same millisecond are one.
const sqlInsertForget = `
INSERT INTO webhook_forgets (org_id, subscription_id, before_id, discard)
VALUES (@org_id, @subscription_id, @before, @discard)
ON CONFLICT DO NOTHING`

func insertForget(ctx context.Context, tx *postgres.Tx, args forgetArgs) error {
	_, err := tx.Exec(ctx, sqlInsertForget,
		postgres.Args{argSubscription: args.Subscription, "before": args.Before, "discard": args.Discard})
	return err
}

const sqlForgets = `
SELECT org_id AS org, subscription_id AS subscription, before_id AS before, discard, NULL::uuid AS after
FROM webhook_forgets
WHERE org_id = @org_id
ORDER BY subscription_id, before_id`

func forgetsUnderWay(ctx context.Context, tx *postgres.Tx) ([]forgetArgs, error) {
	return postgres.Many[forgetArgs](ctx, tx, sqlForgets, nil)
}

const sqlEndForget = `
DELETE FROM webhook_forgets
WHERE org_id = @org_id
  AND subscription_id = @subscription_id
  AND before_id = @before`

func endForget(ctx context.Context, tx *postgres.Tx, args forgetArgs) error {
	_, err := tx.Exec(ctx, sqlEndForget, postgres.Args{argSubscription: args.Subscription, "before": args.Before})
	return err
}
