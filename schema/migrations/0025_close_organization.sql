-- +goose Up
-- A move takes the lock of the organization itself.
DROP FUNCTION close_organization(uuid);
