package templates

import (
	"context"
	"log/slog"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/provider"
)

// Provider is what templates ask the messaging network.
type Provider interface {
	ListTemplates(ctx context.Context, of provider.BusinessAccount, query provider.TemplateQuery) (provider.TemplatePage, error)
	FetchTemplate(ctx context.Context, of provider.BusinessAccount, templateID string) (provider.Template, error)
	CreateTemplate(ctx context.Context, of provider.BusinessAccount, draft provider.TemplateDraft) (provider.TemplateCreated, error)
	EditTemplate(ctx context.Context, of provider.BusinessAccount, templateID string, edit provider.TemplateEdit) error
	UploadExample(ctx context.Context, token provider.Token, file provider.File) (handle string, err error)
}

// Service is the templates of one cell.
type Service struct {
	db *postgres.DB
	// work is the pool of jobs.
	work     *postgres.DB
	clock    clock.Clock
	accounts *accounts.Service
	jobs     *jobs.Queue
	provider Provider
	fetch    *safehttp.Client
	// answersWithin is how long the host of a file may take until its answer begins and its type is known.
	answersWithin time.Duration
	logger        *slog.Logger
}

// Deps are the dependencies of the service.
type Deps struct {
	DB, Work *postgres.DB
	Clock    clock.Clock
	Accounts *accounts.Service
	Jobs     *jobs.Queue
	// Provider is nil for commands that never ask it.
	Provider Provider
	// Fetch reads the files that headers show from the URLs of tenants.
	Fetch  *safehttp.Client
	Logger *slog.Logger
}

// New builds the service.
func New(deps Deps) *Service {
	return &Service{
		db: deps.DB, work: deps.Work, clock: deps.Clock, accounts: deps.Accounts, jobs: deps.Jobs, provider: deps.Provider,
		fetch: deps.Fetch, answersWithin: answersWithin, logger: deps.Logger,
	}
}

// List returns a page of a number's templates, newest first.
func (s *Service) List(
	ctx context.Context, org orgs.ID, of accounts.Account, filter Filter, slice paging.Slice[ID],
) (paging.Page[Template, ID], error) {
	return listTemplates(ctx, s.db.Of(org), of.ID, filter, slice)
}

// Find returns the template of a name and a language, or without one the newest of the name.
func (s *Service) Find(ctx context.Context, org orgs.ID, of accounts.Account, name, language string) (Template, error) {
	template, err := templateByName(ctx, s.db.Of(org), of.ID, name, language)
	return template, notFound(err)
}

// FindTx is Find in a transaction.
func (s *Service) FindTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, name, language string) (Template, error) {
	template, err := templateByName(ctx, tx, of.ID, name, language)
	return template, notFound(err)
}

func notFound(err error) error { return postgres.NotFound(err, "template", "") }

// Purge removes the templates of a number that was disconnected.
func (s *Service) Purge(ctx context.Context, org orgs.ID, of accounts.Account, _ ids.Any) error {
	return postgres.DeleteInPortions(ctx, s.work, org, sqlPurge, postgres.Args{argAccount: of.ID})
}
