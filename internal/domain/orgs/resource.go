package orgs

import "github.com/parley-chat/parley/internal/platform/clock"

// Resource is the JSON of an organization.
type Resource struct {
	ID                 ID           `json:"id"`
	Name               string       `json:"name"`
	Plan               string       `json:"plan"`
	SubscriptionStatus Subscription `json:"subscription_status"`
	TrialEndsAt        *clock.Stamp `json:"trial_ends_at"`
	Quota              Quota        `json:"quota"`
	RateLimit          RateLimit    `json:"rate_limit"`
}

// Quota is how many messages the plan includes in a month, and how many were accepted, at most a
// second ago.
type Quota struct {
	Limit    int64       `json:"limit"`
	Used     int64       `json:"used"`
	ResetsAt clock.Stamp `json:"resets_at"`
}

// RateLimit is the plan's token bucket.
type RateLimit struct {
	PerSecond int `json:"per_second"`
	Burst     int `json:"burst"`
}

// TeamResource is the JSON of a team with its members.
type TeamResource struct {
	ID      TeamID         `json:"id"`
	Name    string         `json:"name"`
	Members []UserResource `json:"members"`
}

// UserResource is the JSON of a person.
type UserResource struct {
	ID    UserID  `json:"id"`
	Name  *string `json:"name"`
	Email *string `json:"email"`
}

// Resource prints the organization.
func (v Overview) Resource() Resource {
	return Resource{
		ID:                 v.Organization.OrgID,
		Name:               v.Organization.Name,
		Plan:               v.Plan.Name,
		SubscriptionStatus: v.Organization.SubscriptionStatus,
		TrialEndsAt:        clock.StampOrNil(v.Organization.TrialEndsAt),
		Quota:              Quota{Limit: v.Plan.MessagesPerMonth, Used: v.QuotaUsed, ResetsAt: clock.Stamp(v.QuotaResetsAt)},
		RateLimit:          RateLimit{PerSecond: v.Plan.RatePerSecond, Burst: v.Plan.RateBurst},
	}
}

// TeamResources prints the teams, each with its members.
func (v Overview) TeamResources() []TeamResource {
	teams := make([]TeamResource, len(v.Teams))
	for i, team := range v.Teams {
		teams[i] = TeamResource{ID: team.ID, Name: team.Name, Members: []UserResource{}}
		for _, member := range v.Members {
			if member.TeamID == team.ID {
				teams[i].Members = append(teams[i].Members, UserResource{ID: member.UserID, Name: member.Name, Email: member.Email})
			}
		}
	}
	return teams
}
