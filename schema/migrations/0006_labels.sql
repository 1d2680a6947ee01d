-- +goose Up

CREATE TABLE labels (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    team_id uuid NOT NULL,
    name text NOT NULL,
    name_key text NOT NULL COLLATE "C",
    color text NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, team_id) REFERENCES teams,
    CONSTRAINT labels_name_unique UNIQUE (org_id, team_id, name_key)
);
