package orgs

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// CreateTeam adds a team.
func (s *Service) CreateTeam(ctx context.Context, org ID, by audit.Principal, name string) (Team, error) {
	if strings.TrimSpace(name) == "" {
		return Team{}, fault.Missing("name")
	}
	if err := jsonin.Name("name", name); err != nil {
		return Team{}, err
	}
	team := Team{ID: ids.NewPlain[teamKind](s.clock.Now()), Name: name}
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Team, error) {
		if err := insertTeam(ctx, tx, team); err != nil {
			return Team{}, organizationFault(err)
		}
		return team, s.audit.RecordTx(ctx, tx, by, "team.created", team.ID.String(), nil)
	})
}

// Teams returns the teams of an organization, oldest first.
func (s *Service) Teams(ctx context.Context, org ID) ([]Team, error) {
	return listTeams(ctx, s.db.Of(org))
}

// TeamTx resolves the team of a new row: the one given, or the only one there is.
func (s *Service) TeamTx(ctx context.Context, tx *postgres.Tx, given *TeamID) (TeamID, error) {
	if given != nil {
		team, err := teamByID(ctx, tx, *given)
		return team.ID, postgres.NotFound(err, "team", "team_id")
	}
	teams, err := listTeams(ctx, tx)
	if err != nil {
		return TeamID{}, err
	}
	if len(teams) == 0 {
		return TeamID{}, fault.Missing("team_id")
	}
	if len(teams) > 1 {
		return TeamID{}, chooseTeam(teams)
	}
	return teams[0].ID, nil
}

// chooseTeam asks for the team, and names those there are.
func chooseTeam(teams []Team) error {
	const most = 10
	var names []string
	for _, team := range teams[:min(most, len(teams))] {
		names = append(names, fmt.Sprintf("%s (%s)", team.ID, team.Name))
	}
	if len(teams) > most {
		names = append(names, "and more, see GET /v1/me")
	}
	return fault.New(fault.MissingRequiredField, "The organization has several teams, so `team_id` is required. Its teams: %s.",
		strings.Join(names, ", ")).At("team_id")
}

// CreateUser adds a person and puts them in a team.
func (s *Service) CreateUser(ctx context.Context, org ID, by audit.Principal, team *TeamID, name, email string) (User, error) {
	if strings.TrimSpace(email) == "" {
		return User{}, fault.Missing("email")
	}
	user := User{ID: ids.NewPlain[userKind](s.clock.Now()), Email: &email}
	if name != "" {
		if err := jsonin.Name("name", name); err != nil {
			return User{}, err
		}
		user.Name = &name
	}
	created, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (User, error) {
		member, err := s.TeamTx(ctx, tx, team)
		if err != nil {
			return User{}, err
		}
		if err := insertUser(ctx, tx, user); err != nil {
			return User{}, organizationFault(err)
		}
		if err := insertMember(ctx, tx, member, user.ID); err != nil {
			return User{}, err
		}
		return user, s.audit.RecordTx(ctx, tx, by, "user.created", user.ID.String(), nil)
	})
	if postgres.Violates(err, "users_email_unique") {
		return User{}, fault.New(fault.AlreadyExists, "The organization already has a user with the address %s.", email).At("email")
	}
	return created, err
}

// Users returns the people of an organization, oldest first.
func (s *Service) Users(ctx context.Context, org ID) ([]User, error) {
	return listUsers(ctx, s.db.Of(org))
}

// organizationFault names the organization that a foreign key did not find.
func organizationFault(err error) error {
	if postgres.Violates(err, "teams_org_id_fkey") || postgres.Violates(err, "users_org_id_fkey") {
		return notFound(postgres.ErrNoRow)
	}
	return err
}
