package orgs

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Service is the organizations of one cell.
type Service struct {
	db        *postgres.DB
	clock     clock.Clock
	audit     *audit.Log
	directory *directory.Branch
}

// New builds the service.
func New(db *postgres.DB, clock clock.Clock, log *audit.Log, branch *directory.Branch) *Service {
	return &Service{db: db, clock: clock, audit: log, directory: branch}
}

// Create makes an organization with its first team.
func (s *Service) Create(ctx context.Context, by audit.Principal, draft Draft) (Organization, Team, error) {
	if err := draft.check(); err != nil {
		return Organization{}, Team{}, err
	}
	now := s.clock.Now()
	org := Organization{
		OrgID: ids.NewOrg(now), Name: draft.Name, Plan: draft.Plan,
		SubscriptionStatus: Active, TrialEndsAt: draft.TrialEndsAt, StopKeywords: []string{}, UpdatedAt: now,
	}
	if draft.TrialEndsAt != nil {
		org.SubscriptionStatus = Trialing
	}
	team := Team{ID: ids.NewPlain[teamKind](now), Name: draft.TeamName}
	if team.Name == "" {
		team.Name = draft.Name
	}
	err := s.directory.Place(ctx, org.OrgID, func(ctx context.Context) error {
		_, err := postgres.InFirstTx(ctx, s.db, org.OrgID, func(tx *postgres.Tx) (Organization, error) {
			if err := insertOrganization(ctx, tx, org); err != nil {
				return org, err
			}
			if err := insertTeam(ctx, tx, team); err != nil {
				return org, err
			}
			return org, s.audit.RecordTx(ctx, tx, by, "org.created", org.OrgID.String(), map[string]any{"plan": org.Plan})
		})
		return planFault(err, draft.Plan)
	})
	return org, team, err
}

// StopKeywordsTx returns the words with which a contact ends marketing messages.
func (s *Service) StopKeywordsTx(ctx context.Context, tx *postgres.Tx) ([]string, error) {
	return stopKeywords(ctx, tx)
}

// Get returns one organization.
func (s *Service) Get(ctx context.Context, org ID) (Organization, error) {
	found, err := organizationByID(ctx, s.db.Of(org))
	return found, notFound(err)
}

// List returns every organization of the cell, oldest first.
func (s *Service) List(ctx context.Context) ([]Organization, error) {
	return listOrganizations(ctx, s.db.System("list organizations"))
}

// Plan returns a plan by its name.
func (s *Service) Plan(ctx context.Context, name string) (Plan, error) {
	plan, err := planByName(ctx, s.db.System("plan"), name)
	if errors.Is(err, postgres.ErrNoRow) {
		return Plan{}, unknownPlan(name)
	}
	return plan, err
}

// Set changes plan, subscription or policy.
func (s *Service) Set(ctx context.Context, org ID, by audit.Principal, change Change) (Organization, error) {
	plan := ""
	if change.Plan != nil {
		plan = *change.Plan
	}
	changed, err := s.update(ctx, org, by, "org.changed", func(o *Organization) error { return o.apply(change) })
	return changed, planFault(err, plan)
}

// Suspend blocks every request of the organization.
func (s *Service) Suspend(ctx context.Context, org ID, by audit.Principal) (Organization, error) {
	now := s.clock.Now()
	return s.update(ctx, org, by, "org.suspended", func(o *Organization) error {
		o.SuspendedAt = &now
		return nil
	})
}

// Resume lifts a suspension.
func (s *Service) Resume(ctx context.Context, org ID, by audit.Principal) (Organization, error) {
	return s.update(ctx, org, by, "org.resumed", func(o *Organization) error {
		o.SuspendedAt = nil
		return nil
	})
}

func (s *Service) update(
	ctx context.Context, org ID, by audit.Principal, action string, change func(*Organization) error,
) (Organization, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Organization, error) {
		current, err := lockOrganization(ctx, tx)
		if err != nil {
			return Organization{}, notFound(err)
		}
		if err := change(&current); err != nil {
			return Organization{}, err
		}
		current.UpdatedAt = s.clock.Now()
		if err := updateOrganization(ctx, tx, current); err != nil {
			return Organization{}, err
		}
		return current, s.audit.RecordTx(ctx, tx, by, action, org.String(), map[string]any{
			"plan": current.Plan, "subscription": current.SubscriptionStatus,
		})
	})
}

// planFault names the plan that a foreign key did not find.
func planFault(err error, plan string) error {
	if postgres.Violates(err, "organizations_plan_fkey") {
		return unknownPlan(plan)
	}
	return err
}

// Overview returns the organization with its plan, this month's quota, teams and people. QuotaUsed is
// what the processes have added to the month's row: it lacks what they counted in the last second.
func (s *Service) Overview(ctx context.Context, org ID) (Overview, error) {
	now := s.clock.Now()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	view := Overview{QuotaResetsAt: month.AddDate(0, 1, 0)}
	var err error
	if view.Organization, err = s.Get(ctx, org); err != nil {
		return view, err
	}
	if view.Plan, err = s.Plan(ctx, view.Organization.Plan); err != nil {
		return view, err
	}
	if view.QuotaUsed, err = quotaUsed(ctx, s.db.Of(org), month); err != nil {
		return view, err
	}
	if view.Teams, err = s.Teams(ctx, org); err != nil {
		return view, err
	}
	view.Members, err = listMembers(ctx, s.db.Of(org))
	return view, err
}
