package templates

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// The subjects of notifications, in Template.Said.
const (
	aboutStatus   = "status"
	aboutQuality  = "quality"
	aboutCategory = "category"
)

// NotifiedTx applies a notification about a template to the rows of all numbers that have it, and
// makes their sync due: the sync reads what the notification left out, and new templates. It
// reports whether the notification is about a template. Applying it again, or late, changes
// nothing.
func (s *Service) NotifiedTx(ctx context.Context, tx *postgres.Tx, said provider.Notification) (handled bool, err error) {
	ref, apply := consequence(said.Item)
	if apply == nil {
		return false, nil
	}
	if err := s.dueTx(ctx, tx, said.BusinessAccountID); err != nil {
		return true, err
	}
	concerned, err := lockConcerned(ctx, tx, ref)
	if err != nil {
		return true, err
	}
	now := s.clock.Now()
	at := said.At
	if at.IsZero() {
		at = now
	}
	for _, template := range concerned {
		if !apply(&template, at.UTC()) {
			continue
		}
		template.Digest, template.HeardAt, template.UpdatedAt = template.digest(), &now, now
		if err := hearTemplate(ctx, tx, template); err != nil {
			return true, err
		}
	}
	return true, nil
}

// consequence is which template a notification is about and what it changes, or nil.
func consequence(item provider.Item) (provider.TemplateRef, func(*Template, time.Time) bool) {
	switch said := item.(type) {
	case provider.TemplateStatus:
		return said.Template, func(t *Template, at time.Time) bool {
			if !t.newer(aboutStatus, string(value(t.ProviderStatus)), said.Status, at) {
				return false
			}
			t.ProviderStatus, t.Status, t.RejectionReason = text(said.Status), said.Review, nil
			if t.Status == Rejected {
				t.RejectionReason = text(said.Reason)
			}
			return true
		}
	case provider.TemplateQuality:
		return said.Template, func(t *Template, at time.Time) bool {
			if !t.newer(aboutQuality, string(value(t.Quality)), said.Score, at) {
				return false
			}
			t.Quality = text(said.Score)
			return true
		}
	case provider.TemplateCategory:
		return said.Template, func(t *Template, at time.Time) bool {
			moved := category(said.Category)
			if said.Planned || moved == nil || !t.newer(aboutCategory, string(value(t.Category)), *moved, at) {
				return false
			}
			t.Category = moved
			return true
		}
	case provider.TemplateComponents:
		return said.Template, func(*Template, time.Time) bool { return false } // the next sync reads what changed
	default:
		return provider.TemplateRef{}, nil
	}
}

// newer records the time of a notification about a subject, unless a newer one was applied. Of two
// values of the same time the greater stays, so that every order ends the same.
func (t *Template) newer(about, is, word string, at time.Time) bool {
	last, spoken := t.Said[about]
	if spoken && (at.Before(last) || at.Equal(last) && word <= is) {
		return false
	}
	if t.Said == nil {
		t.Said = map[string]time.Time{}
	}
	t.Said[about] = at
	return true
}

// ignoreBefore has notifications from before a time ignored. They carry whole seconds: those of its second are not ignored.
func (t *Template) ignoreBefore(at time.Time) {
	at = at.Truncate(time.Second).Add(-time.Millisecond).UTC()
	for _, about := range []string{aboutStatus, aboutQuality, aboutCategory} {
		if t.Said[about].After(at) {
			continue
		}
		if t.Said == nil {
			t.Said = map[string]time.Time{}
		}
		t.Said[about] = at
	}
}

const sqlDue = `
INSERT INTO template_syncs AS s (org_id, account_id, due_at)
SELECT @org_id, a.id, @now
FROM accounts a
WHERE a.org_id = @org_id
  AND a.business_account_id = @business_account_id
  AND a.deleted_at IS NULL
ORDER BY a.id
ON CONFLICT (org_id, account_id) DO UPDATE
SET due_at = least(s.due_at, excluded.due_at)`

func (s *Service) dueTx(ctx context.Context, tx *postgres.Tx, businessAccount string) error {
	_, err := tx.Exec(ctx, sqlDue, postgres.Args{"business_account_id": businessAccount, "now": s.clock.Now()})
	return err
}
