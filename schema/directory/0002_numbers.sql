-- +goose Up

-- The business account of a number is known with the number's route: there is nothing to
-- keep in step with it.
ALTER TABLE directory.routes ADD COLUMN business_account_id text;
CREATE INDEX routes_business_account ON directory.routes (business_account_id)
    WHERE business_account_id IS NOT NULL;

-- What stood in the table is derived from now on.
DROP TABLE directory.business_accounts;
