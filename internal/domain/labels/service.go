package labels

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Service is the labels of one cell.
type Service struct {
	db    *postgres.DB
	clock clock.Clock
	orgs  *orgs.Service
}

// New builds the service.
func New(db *postgres.DB, clock clock.Clock, orgs *orgs.Service) *Service {
	return &Service{db: db, clock: clock, orgs: orgs}
}

// Create adds a label to a team.
func (s *Service) Create(ctx context.Context, org orgs.ID, draft Draft) (Label, error) {
	if err := draft.check(); err != nil {
		return Label{}, err
	}
	label := Label{Name: draft.Name, Color: draft.Color}
	created, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (_ Label, err error) {
		if label.TeamID, err = s.orgs.TeamTx(ctx, tx, draft.TeamID); err != nil {
			return Label{}, err
		}
		now := s.clock.Now()
		label.ID, label.UpdatedAt = ids.New[kind](now), now
		return label, insertLabel(ctx, tx, label)
	})
	return created, s.nameFault(ctx, org, label, err)
}

// Get returns one label.
func (s *Service) Get(ctx context.Context, org orgs.ID, id ID) (Label, error) {
	label, err := labelByID(ctx, s.db.Of(org), id)
	return label, notFound(err, "")
}

// List returns a page of labels, newest first.
func (s *Service) List(ctx context.Context, org orgs.ID, slice paging.Slice[ID]) (paging.Page[Label, ID], error) {
	return listLabels(ctx, s.db.Of(org), slice)
}

// Update renames or recolors a label; a patch that changes nothing leaves it untouched.
func (s *Service) Update(ctx context.Context, org orgs.ID, id ID, change Patch) (Label, error) {
	if err := change.check(); err != nil {
		return Label{}, err
	}
	var label Label
	updated, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (_ Label, err error) {
		if label, err = lockLabel(ctx, tx, id); err != nil {
			return Label{}, notFound(err, "")
		}
		if !label.apply(change, s.clock.Now()) {
			return label, nil
		}
		return label, updateLabel(ctx, tx, label)
	})
	return updated, s.nameFault(ctx, org, label, err)
}

// Delete removes a label from its team, and from all contacts and conversations that carry it.
func (s *Service) Delete(ctx context.Context, org orgs.ID, id ID) (Label, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Label, error) {
		label, err := deleteLabel(ctx, tx, id)
		return label, notFound(err, "")
	})
}

// InTeamTx keeps a label of the team from being deleted until the transaction ends. Call it before
// contacts and conversations are locked. A label that the team does not have is returned as
// unknown, so that a caller can report another fault first. Param is the body field that named the label, empty when the path named it.
func (s *Service) InTeamTx(ctx context.Context, tx *postgres.Tx, team orgs.TeamID, id ID, param string) (unknown, err error) {
	label, err := keepLabel(ctx, tx, id)
	if errors.Is(err, postgres.ErrNoRow) || err == nil && label.TeamID != team {
		return notFound(postgres.ErrNoRow, param), nil
	}
	return nil, err
}

func notFound(err error, param string) error { return postgres.NotFound(err, "label", param) }

// nameFault says which label of the team already has the name.
func (s *Service) nameFault(ctx context.Context, org orgs.ID, label Label, err error) error {
	if !postgres.Violates(err, "labels_name_unique") {
		return err
	}
	existing, err := labelByName(ctx, s.db.Of(org), label.TeamID, label.Name)
	if err != nil { // it was deleted meanwhile: the caller may try again
		return fault.Unavailable(time.Second, err)
	}
	return fault.New(fault.AlreadyExists, "The team already has the label %q: %s.", existing.Name, existing.ID).At("name")
}
