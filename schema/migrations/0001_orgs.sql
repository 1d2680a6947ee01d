-- +goose Up

-- A plan is data: an operator may edit it.
CREATE TABLE plans (
    name text PRIMARY KEY,
    api_access boolean NOT NULL,
    customers boolean NOT NULL,
    messages_per_month bigint NOT NULL CHECK (messages_per_month >= 0),
    rate_per_second integer NOT NULL CHECK (rate_per_second > 0),
    rate_burst integer NOT NULL CHECK (rate_burst > 0),
    history_days integer NOT NULL CHECK (history_days > 0)
);

INSERT INTO plans (name, api_access, customers, messages_per_month, rate_per_second, rate_burst, history_days) VALUES
    ('free', false, false, 100, 5, 10, 7),
    ('starter', true, false, 10000, 20, 40, 30),
    ('growth', true, false, 250000, 100, 200, 180),
    ('platform', true, true, 10000000, 500, 1000, 365);

CREATE TABLE organizations (
    org_id uuid PRIMARY KEY,
    name text NOT NULL,
    plan text NOT NULL REFERENCES plans,
    subscription_status text NOT NULL CHECK (subscription_status IN ('trialing', 'active', 'inactive')),
    trial_ends_at timestamptz CHECK (trial_ends_at IS NOT NULL OR subscription_status <> 'trialing'),
    suspended_at timestamptz,
    require_opt_in boolean NOT NULL DEFAULT false,
    stop_keywords text[] NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL,
    -- Grows with each move to another cell; a request that was routed by an older epoch is refused.
    epoch bigint NOT NULL DEFAULT 1,
    -- Set while the organization is moved, and after it moved away.
    frozen_at timestamptz
);

CREATE TABLE teams (
    org_id uuid NOT NULL REFERENCES organizations,
    id uuid NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (org_id, id)
);

CREATE TABLE users (
    org_id uuid NOT NULL REFERENCES organizations,
    id uuid NOT NULL,
    name text,
    email text,
    email_key text COLLATE "C",
    PRIMARY KEY (org_id, id),
    CONSTRAINT users_email_unique UNIQUE (org_id, email_key)
);

CREATE TABLE team_members (
    org_id uuid NOT NULL,
    team_id uuid NOT NULL,
    user_id uuid NOT NULL,
    PRIMARY KEY (org_id, team_id, user_id),
    FOREIGN KEY (org_id, team_id) REFERENCES teams,
    FOREIGN KEY (org_id, user_id) REFERENCES users
);

-- Messages accepted in a calendar month, UTC.
CREATE TABLE quota_usage (
    org_id uuid NOT NULL REFERENCES organizations,
    month date NOT NULL,
    used bigint NOT NULL CHECK (used >= 0),
    PRIMARY KEY (org_id, month)
);
