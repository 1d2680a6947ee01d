package orgs

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/textkey"
)

const organizationColumns = `org_id, name, plan, subscription_status, trial_ends_at, suspended_at,
       require_opt_in, stop_keywords, updated_at, frozen_at`

const sqlInsertOrganization = `
INSERT INTO organizations (org_id, name, plan, subscription_status, trial_ends_at, stop_keywords, updated_at)
VALUES (@org_id, @name, @plan, @subscription_status, @trial_ends_at, @stop_keywords, @updated_at)`

func insertOrganization(ctx context.Context, tx *postgres.Tx, o Organization) error {
	_, err := tx.Exec(ctx, sqlInsertOrganization, postgres.Args{
		"name": o.Name, "plan": o.Plan, "subscription_status": o.SubscriptionStatus,
		"trial_ends_at": o.TrialEndsAt, "stop_keywords": o.StopKeywords, "updated_at": o.UpdatedAt,
	})
	return err
}

const sqlOrganizationByID = `
SELECT ` + organizationColumns + `
FROM organizations
WHERE org_id = @org_id`

func organizationByID(ctx context.Context, scope postgres.Scope) (Organization, error) {
	return postgres.One[Organization](ctx, scope, sqlOrganizationByID, nil)
}

const sqlStopKeywords = `
SELECT unnest(stop_keywords)
FROM organizations
WHERE org_id = @org_id`

func stopKeywords(ctx context.Context, scope postgres.Scope) ([]string, error) {
	return postgres.Many[string](ctx, scope, sqlStopKeywords, nil)
}

func lockOrganization(ctx context.Context, tx *postgres.Tx) (Organization, error) {
	return postgres.One[Organization](ctx, tx, sqlOrganizationByID+` FOR UPDATE`, nil)
}

const sqlListOrganizations = `
SELECT ` + organizationColumns + `
FROM organizations
ORDER BY org_id`

func listOrganizations(ctx context.Context, scope postgres.Scope) ([]Organization, error) {
	return postgres.Many[Organization](ctx, scope, sqlListOrganizations, nil)
}

const sqlUpdateOrganization = `
UPDATE organizations
SET plan = @plan,
    subscription_status = @subscription_status,
    trial_ends_at = @trial_ends_at,
    suspended_at = @suspended_at,
    require_opt_in = @require_opt_in,
    stop_keywords = @stop_keywords,
    updated_at = @updated_at
WHERE org_id = @org_id`

func updateOrganization(ctx context.Context, tx *postgres.Tx, o Organization) error {
	_, err := tx.Exec(ctx, sqlUpdateOrganization, postgres.Args{
		"plan": o.Plan, "subscription_status": o.SubscriptionStatus, "trial_ends_at": o.TrialEndsAt, "suspended_at": o.SuspendedAt,
		"require_opt_in": o.RequireOptIn, "stop_keywords": o.StopKeywords, "updated_at": o.UpdatedAt,
	})
	return err
}

const sqlPlanByName = `
SELECT name, api_access, customers, messages_per_month, rate_per_second, rate_burst, history_days
FROM plans
WHERE name = @name`

func planByName(ctx context.Context, scope postgres.Scope, name string) (Plan, error) {
	return postgres.One[Plan](ctx, scope, sqlPlanByName, postgres.Args{"name": name})
}

const sqlQuotaUsed = `
SELECT coalesce(sum(used), 0)::bigint
FROM quota_usage
WHERE org_id = @org_id
  AND month = @month`

func quotaUsed(ctx context.Context, scope postgres.Scope, month time.Time) (int64, error) {
	return postgres.One[int64](ctx, scope, sqlQuotaUsed, postgres.Args{"month": month})
}

const sqlInsertTeam = `
INSERT INTO teams (org_id, id, name)
VALUES (@org_id, @id, @name)`

func insertTeam(ctx context.Context, tx *postgres.Tx, t Team) error {
	_, err := tx.Exec(ctx, sqlInsertTeam, postgres.Args{"id": t.ID, "name": t.Name})
	return err
}

const sqlTeamByID = `
SELECT id, name
FROM teams
WHERE org_id = @org_id
  AND id = @id`

func teamByID(ctx context.Context, scope postgres.Scope, id TeamID) (Team, error) {
	return postgres.One[Team](ctx, scope, sqlTeamByID, postgres.Args{"id": id})
}

const sqlListTeams = `
SELECT id, name
FROM teams
WHERE org_id = @org_id
ORDER BY id`

func listTeams(ctx context.Context, scope postgres.Scope) ([]Team, error) {
	return postgres.Many[Team](ctx, scope, sqlListTeams, nil)
}

const sqlInsertUser = `
INSERT INTO users (org_id, id, name, email, email_key)
VALUES (@org_id, @id, @name, @email, @email_key)`

func insertUser(ctx context.Context, tx *postgres.Tx, u User) error {
	_, err := tx.Exec(ctx, sqlInsertUser, postgres.Args{
		"id": u.ID, "name": u.Name, "email": u.Email, "email_key": textkey.Fold(*u.Email),
	})
	return err
}

const sqlInsertMember = `
INSERT INTO team_members (org_id, team_id, user_id)
VALUES (@org_id, @team_id, @user_id)`

func insertMember(ctx context.Context, tx *postgres.Tx, team TeamID, user UserID) error {
	_, err := tx.Exec(ctx, sqlInsertMember, postgres.Args{"team_id": team, "user_id": user})
	return err
}

const sqlListUsers = `
SELECT id, name, email
FROM users
WHERE org_id = @org_id
ORDER BY id`

func listUsers(ctx context.Context, scope postgres.Scope) ([]User, error) {
	return postgres.Many[User](ctx, scope, sqlListUsers, nil)
}

const sqlListMembers = `
SELECT m.team_id, m.user_id, u.name, u.email
FROM team_members m
JOIN users u ON u.org_id = m.org_id AND u.id = m.user_id
WHERE m.org_id = @org_id
ORDER BY m.team_id, m.user_id`

func listMembers(ctx context.Context, scope postgres.Scope) ([]Member, error) {
	return postgres.Many[Member](ctx, scope, sqlListMembers, nil)
}
