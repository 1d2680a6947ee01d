package templates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	// syncEvery is how often the templates of a number are read without a notification.
	syncEvery = time.Hour
	dueAtOnce = 100
	pageSize  = 200
	// maxPages ends the reading of a list whose cursors go in a circle.
	maxPages = 100
)

// Synced is what a sync changed.
type Synced struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	Removed   int `json:"removed"`
}

// Sync reads every template of the number's business account and brings the number's own up
// to date.
func (s *Service) Sync(ctx context.Context, org orgs.ID, of accounts.Account) (Synced, error) {
	return s.sync(ctx, s.db, org, of)
}

func (s *Service) sync(ctx context.Context, db *postgres.DB, org orgs.ID, of accounts.Account) (Synced, error) {
	business, err := s.accounts.BusinessAccount(org, of)
	if err != nil {
		return Synced{}, err
	}
	readAt := s.clock.Now()
	given, err := s.readAll(ctx, business)
	if err != nil {
		return Synced{}, syncFault(err)
	}
	return postgres.InTx(ctx, db, org, func(tx *postgres.Tx) (Synced, error) {
		if err := lockSync(ctx, tx, of.ID, s.clock.Now()); err != nil {
			return Synced{}, err
		}
		return s.mergeTx(ctx, tx, of.ID, given, readAt)
	})
}

var errEndless = errors.New("the provider's list of templates does not end")

// readAll follows the provider's cursors to the end before anything is written: templates that are
// missing from a partial list must not be removed.
func (s *Service) readAll(ctx context.Context, of provider.BusinessAccount) ([]provider.Template, error) {
	var all []provider.Template
	query := provider.TemplateQuery{Limit: pageSize}
	for range maxPages {
		page, err := s.provider.ListTemplates(ctx, of, query)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Templates...)
		if page.Next == "" {
			return all, nil
		}
		if page.Next == query.After {
			return nil, errEndless
		}
		query.After = page.Next
	}
	return nil, errEndless
}

// syncFault turns a failure of the provider into an answer.
func syncFault(err error) error {
	failed, is := provider.As(err)
	switch {
	case !is:
		return err
	case failed.Class == provider.AccountFault || failed.Missing:
		return fault.New(fault.UpstreamError, "The provider does not let us read the templates of this number: %s", failed.Words())
	default:
		refusal := fault.New(fault.ProviderUpstreamError, "%s Try again in a minute.", failed.Trouble())
		refusal.RetryAfter = failed.RetryAfter
		return refusal
	}
}

// mergeTx writes the differences. A template of which a notification came after the list was read
// is newer than the list, and stays as it is.
func (s *Service) mergeTx(
	ctx context.Context, tx *postgres.Tx, account accounts.ID, given []provider.Template, readAt time.Time,
) (result Synced, err error) {
	stored, err := lockKnown(ctx, tx, account, readAt)
	if err != nil {
		return Synced{}, err
	}
	have := make(map[key]known, len(stored))
	for _, one := range stored {
		have[key{one.Name, one.Language}] = one
	}
	now := s.clock.Now()
	var changed []Template
	seen := make(map[key]bool, len(given))
	for _, one := range given {
		template := Template{AccountID: account}
		template.learn(one, now)
		if seen[template.key()] || template.Name == "" {
			continue
		}
		seen[template.key()] = true
		before, exists := have[template.key()]
		switch {
		case !exists:
			template.ID = ids.New[kind](now)
			result.Created++
			changed = append(changed, template)
		case before.Fresh || bytes.Equal(before.Digest, template.Digest):
			result.Unchanged++
		default:
			template.ID = before.ID
			result.Updated++
			changed = append(changed, template)
		}
	}
	var gone []ID
	for _, one := range stored {
		if !seen[key{one.Name, one.Language}] && !one.Fresh {
			gone = append(gone, one.ID)
		}
	}
	result.Removed = len(gone)
	if err := removeTemplates(ctx, tx, gone); err != nil {
		return Synced{}, err
	}
	return result, keepTemplates(ctx, tx, account, changed, now)
}

// Handle registers the jobs.
func (s *Service) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, _ int64, args syncArgs) error { return s.syncJob(ctx, args) })
}

// syncArgs is the job that reads the templates of a number.
type syncArgs struct {
	Org     orgs.ID     `json:"org"`
	Account accounts.ID `json:"account"`
}

// Kind names the job.
func (syncArgs) Kind() string { return "templates_sync" }

// syncJob does not retry when the provider refuses: the number is due again in an hour.
func (s *Service) syncJob(ctx context.Context, args syncArgs) error {
	account, err := s.accounts.Get(ctx, args.Org, args.Account)
	if fault.Of(err) == fault.ResourceNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.sync(ctx, s.work, args.Org, account)
	switch code := fault.Of(err); {
	case code == fault.UpstreamError || code == fault.ResourceNotFound:
		s.logger.InfoContext(ctx, "templates.not_synced", "account", args.Account, "error", err)
		return nil
	case err != nil:
		return fmt.Errorf("sync templates: %w", err)
	default:
		return nil
	}
}

// due is a number whose templates are to be synced.
type due struct {
	OrgID     orgs.ID
	AccountID accounts.ID
}

func dueSyncs() jobs.Due[due] {
	return jobs.Due[due]{
		Table: "template_syncs", Key: "account_id", Returning: `t.org_id, t.account_id`, Every: syncEvery, AtOnce: dueAtOnce,
		Job: func(one due) jobs.Args { return syncArgs{Org: one.OrgID, Account: one.AccountID} },
	}
}

// LookAfter adds a job for each number whose templates are due to be synced; numbers that never
// were are due at once. Every process may call it at any time.
func (s *Service) LookAfter(ctx context.Context) (begun int, err error) {
	return postgres.InSystemTx(ctx, s.work, "templates that are due", func(tx *postgres.Tx) (int, error) {
		now := s.clock.Now()
		if err := insertSyncs(ctx, tx, now); err != nil {
			return 0, err
		}
		return dueSyncs().AddTx(ctx, tx, s.jobs, now)
	})
}
