-- +goose Up

-- With the predicate `id IS NOT NULL` alone, a statement that names the organization and the id could use this index without the
-- account, and then read all its entries of the organization. The planner did so as long as it expected one contact in each
-- organization. Now only a statement that names both, the account and the id, can use it.
DROP INDEX contacts_newest;
CREATE INDEX contacts_newest ON contacts (org_id, account_id, id) WHERE departure IS NULL AND account_id IS NOT NULL AND id IS NOT NULL;
