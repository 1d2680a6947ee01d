// Package orgs owns organizations, their plans and subscriptions, teams and users. What else belongs
// to an organization is in other packages, which point here.
package orgs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// The ids of this package.
type (
	ID     = ids.Org
	TeamID = ids.Plain[teamKind]
	UserID = ids.Plain[userKind]

	teamKind struct{}
	userKind struct{}
)

// Subscription is whether the organization pays.
type Subscription string

// The states of a subscription.
const (
	Trialing Subscription = "trialing"
	Active   Subscription = "active"
	Inactive Subscription = "inactive"
)

// Organization is the tenant.
type Organization struct {
	OrgID              ID
	Name               string
	Plan               string
	SubscriptionStatus Subscription
	TrialEndsAt        *time.Time
	SuspendedAt        *time.Time
	RequireOptIn       bool
	StopKeywords       []string
	UpdatedAt          time.Time
	// FrozenAt is set while the organization is moved to another cell, and in the copy that the move leaves.
	FrozenAt *time.Time
}

// Plan is what a subscription includes.
type Plan struct {
	Name             string
	APIAccess        bool
	Customers        bool
	MessagesPerMonth int64
	RatePerSecond    int
	RateBurst        int
	HistoryDays      int
}

// Team shares labels, contacts and conversations.
type Team struct {
	ID   TeamID
	Name string
}

// User is a member of the organization.
type User struct {
	ID    UserID
	Name  *string
	Email *string
}

// Member is a user in a team.
type Member struct {
	TeamID TeamID
	UserID UserID
	Name   *string
	Email  *string
}

// Overview is an organization as its keys see it.
type Overview struct {
	Organization  Organization
	Plan          Plan
	QuotaUsed     int64
	QuotaResetsAt time.Time
	Teams         []Team
	Members       []Member
}

// Draft creates an organization with its first team.
type Draft struct {
	Name        string
	Plan        string
	TeamName    string
	TrialEndsAt *time.Time
}

func (d Draft) check() error {
	if strings.TrimSpace(d.Name) == "" {
		return fault.Missing("name")
	}
	if d.TeamName != "" {
		if err := jsonin.Name("team_name", d.TeamName); err != nil {
			return err
		}
	}
	return jsonin.Name("name", d.Name)
}

// Change sets what an operator may change; nil leaves a field as it is.
type Change struct {
	Plan         *string
	Subscription *Subscription
	TrialEndsAt  *time.Time
	RequireOptIn *bool
	StopKeywords *[]string
}

func (o *Organization) apply(c Change) error {
	if c.Plan != nil {
		o.Plan = *c.Plan
	}
	if c.Subscription != nil {
		o.SubscriptionStatus = *c.Subscription
	}
	if c.TrialEndsAt != nil {
		o.TrialEndsAt = c.TrialEndsAt
	}
	if c.RequireOptIn != nil {
		o.RequireOptIn = *c.RequireOptIn
	}
	if c.StopKeywords != nil {
		o.StopKeywords = *c.StopKeywords
	}
	switch o.SubscriptionStatus {
	case Trialing:
		if o.TrialEndsAt == nil {
			return fault.Missing("trial_ends_at")
		}
	case Active, Inactive:
	default:
		return fault.Invalid("subscription", "must be trialing, active or inactive")
	}
	return nil
}

// Standing is what decides whether a request may go on, read anew with each request.
type Standing struct {
	SubscriptionStatus Subscription
	TrialEndsAt        *time.Time
	SuspendedAt        *time.Time
	APIAccess          bool
	Customers          bool
	RatePerSecond      int
	RateBurst          int
	MessagesPerMonth   int64
	RequireOptIn       bool
}

// Refuses says why no request of the organization may go on, or nil.
func (s Standing) Refuses() error {
	if s.SuspendedAt != nil {
		return fault.New(fault.OrganizationSuspended, "This organization is suspended. Write to support to have it resumed.")
	}
	return nil
}

// RefusesWrites says why nothing may be changed at that moment, or nil.
func (s Standing) RefusesWrites(now time.Time) error {
	lapsed := s.SubscriptionStatus == Inactive
	ended := s.SubscriptionStatus == Trialing && s.TrialEndsAt != nil && !now.Before(*s.TrialEndsAt)
	if !lapsed && !ended {
		return nil
	}
	reason := "The subscription of this organization is inactive"
	if ended {
		reason = "The trial of this organization has ended"
	}
	return fault.New(fault.SubscriptionInactive, "%s: reads stay open, changes need an active subscription.", reason)
}

// RefusesCustomers says why the organization may have no customers, or nil.
func (s Standing) RefusesCustomers() error {
	if s.Customers {
		return nil
	}
	return fault.New(fault.FeatureNotEntitled, "The plan of this organization does not include customers. Choose a plan that does.")
}

// notFound is not postgres.NotFound, whose sentence is about a row within an organization.
func notFound(err error) error {
	if errors.Is(err, postgres.ErrNoRow) {
		return fault.New(fault.ResourceNotFound, "There is no organization with that id.")
	}
	return err
}

func unknownPlan(name string) error {
	return fault.Invalid("plan", fmt.Sprintf("must be the name of a plan; there is none called %q", name))
}
