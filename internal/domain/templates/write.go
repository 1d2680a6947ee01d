package templates

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// Draft submits a new template.
type Draft struct {
	Name            string          `json:"name"`
	Language        string          `json:"language"`
	Category        string          `json:"category"`
	ParameterFormat string          `json:"parameter_format"`
	Components      json.RawMessage `json:"components"`
}

// Patch replaces the components of a template. Language may be empty when the name has one.
type Patch struct {
	Components json.RawMessage `json:"components"`
	Category   string          `json:"category"`
	Language   string          `json:"language"`
}

var languageCode = regexp.MustCompile(`^[a-z]{2,3}(_[A-Za-z0-9]{2,4})?$`)

// formatNamed is the format of variables with names; otherwise they have numbers.
const formatNamed = "NAMED"

// Create submits a template for review and stores it as pending. A repeated request whose outcome is unknown asks the provider
// first.
func (s *Service) Create(ctx context.Context, org orgs.ID, of accounts.Account, draft Draft) (Template, error) {
	if !languageCode.MatchString(draft.Language) {
		return Template{}, fault.Invalid("language", "must be a language code of the provider, for example en_US or pt_BR")
	}
	if err := (lint{category: draft.Category, named: draft.ParameterFormat == formatNamed}).check(draft.Components); err != nil {
		return Template{}, err
	}
	business, err := s.accounts.BusinessAccount(org, of)
	if err != nil {
		return Template{}, err
	}
	began := s.clock.Now()
	if idempotency.Repeats(ctx) {
		found, err := s.findAtProvider(ctx, business, draft.Name, draft.Language)
		if err != nil {
			return Template{}, err
		}
		if found != nil && sameText(found.Components, draft.Components) {
			return s.keep(ctx, org, of, *found, began)
		}
	}
	components, err := s.withFiles(ctx, business, draft.Components)
	if err != nil {
		return Template{}, err
	}
	began = s.clock.Now()
	created, err := s.provider.CreateTemplate(ctx, business, provider.TemplateDraft{
		Name: draft.Name, Language: draft.Language, Category: draft.Category, ParameterFormat: draft.ParameterFormat, Components: components,
	})
	if err != nil {
		return Template{}, writeFault(err)
	}
	// The effect has happened: a caller who goes away does not keep it from being stored. It is stored as pending, also if the
	// provider has decided at once: a notification or the next sync says so.
	return s.keep(context.WithoutCancel(ctx), org, of, provider.Template{
		ID: created.ID, Name: draft.Name, Language: draft.Language, Status: provider.TemplateStatusPending, Review: provider.ReviewPending,
		Category: cmp.Or(created.Category, draft.Category), ParameterFormat: draft.ParameterFormat, Components: components,
	}, began)
}

// findAtProvider is the provider's template of a name and a language; nil if it has none.
func (s *Service) findAtProvider(ctx context.Context, of provider.BusinessAccount, name, language string) (*provider.Template, error) {
	query := provider.TemplateQuery{Name: name, Limit: pageSize}
	for range maxPages {
		page, err := s.provider.ListTemplates(ctx, of, query)
		if err != nil {
			return nil, syncFault(err)
		}
		for _, one := range page.Templates {
			if one.Name == name && one.Language == language {
				return &one, nil
			}
		}
		if page.Next == "" {
			return nil, nil //nolint:nilnil // there is none
		}
		query.After = page.Next
	}
	return nil, errEndless
}

// keep stores a template of the number as the provider had it at a time. What a notification has said of its review since then
// stays; notifications from before are ignored when they come again, or late.
func (s *Service) keep(ctx context.Context, org orgs.ID, of accounts.Account, given provider.Template, at time.Time) (Template, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Template, error) {
		now := s.clock.Now()
		// A sync, or a notification, may have stored it already.
		if err := holdSync(ctx, tx, of.ID, now); err != nil {
			return Template{}, err
		}
		template := Template{ID: ids.New[kind](now), AccountID: of.ID}
		known, err := templateByName(ctx, tx, of.ID, given.Name, given.Language)
		if err != nil && !errors.Is(err, postgres.ErrNoRow) {
			return Template{}, err
		}
		template.learn(given, now)
		if err == nil {
			template.ID, template.Said, template.HeardAt = known.ID, known.Said, known.HeardAt
			if known.HeardAt != nil && known.HeardAt.After(at) {
				template.Status, template.ProviderStatus = known.Status, known.ProviderStatus
				template.Category, template.RejectionReason, template.Quality = known.Category, known.RejectionReason, known.Quality
				template.Digest = template.digest()
			}
		}
		template.ignoreBefore(at)
		if err := keepTemplates(ctx, tx, of.ID, []Template{template}, now); err != nil {
			return Template{}, err
		}
		return template, hearTemplate(ctx, tx, template) // keepTemplates does not write Said
	})
}

// Update replaces the components of a template and submits it again. It asks the provider what it has first: an edit
// that is under review already, because its answer was lost, is not made again.
func (s *Service) Update(ctx context.Context, org orgs.ID, of accounts.Account, name string, change Patch) (Template, error) {
	template, err := s.only(ctx, org, of, name, change.Language)
	if err != nil {
		return Template{}, err
	}
	category := change.Category
	if category == "" && template.Category != nil {
		category = *template.Category
	}
	named := template.ParameterFormat != nil && strings.EqualFold(*template.ParameterFormat, formatNamed)
	if err := (lint{category: category, named: named}).check(change.Components); err != nil {
		return Template{}, err
	}
	business, err := s.accounts.BusinessAccount(org, of)
	if err != nil {
		return Template{}, err
	}
	if template.ProviderTemplateID == nil {
		return Template{}, fault.New(fault.UpstreamError, "The provider has given this template no id yet. Sync the templates, then try again.")
	}
	began := s.clock.Now()
	current, err := s.provider.FetchTemplate(ctx, business, *template.ProviderTemplateID)
	if err != nil {
		return Template{}, writeFault(err)
	}
	sameCategory := change.Category == "" || change.Category == current.Category
	if current.Review == provider.ReviewPending && sameCategory && sameText(current.Components, change.Components) {
		return s.keep(ctx, org, of, current, began)
	}
	if err := change.fits(current); err != nil {
		return Template{}, err
	}
	components, err := s.withFiles(ctx, business, change.Components)
	if err != nil {
		return Template{}, err
	}
	began = s.clock.Now()
	edit := provider.TemplateEdit{Components: components, Category: change.Category}
	if err := s.provider.EditTemplate(ctx, business, *template.ProviderTemplateID, edit); err != nil {
		return Template{}, writeFault(err)
	}
	current.Components, current.Status, current.Review = components, provider.TemplateStatusPending, provider.ReviewPending
	current.RejectedReason = ""
	if change.Category != "" {
		current.Category = change.Category
	}
	return s.keep(context.WithoutCancel(ctx), org, of, current, began)
}

// fits refuses a change that the provider refuses because of the state in which it has the template.
func (p Patch) fits(current provider.Template) error {
	switch {
	case current.Review == provider.ReviewPending:
		return fault.New(fault.InvalidFieldValue,
			"The provider is still reviewing the template `%s`. Change it when its `status` is approved or rejected.", current.Name).At("name")
	case current.Review == provider.ReviewApproved && p.Category != "" && p.Category != current.Category:
		return fault.Invalid("category",
			"must stay "+current.Category+", because the template is approved; create a template with another name for another category")
	default:
		return nil
	}
}

// only is the template of a name and a language, or the only one of the name.
func (s *Service) only(ctx context.Context, org orgs.ID, of accounts.Account, name, language string) (Template, error) {
	if language == "" {
		languages, err := languagesOf(ctx, s.db.Of(org), of.ID, name)
		if err != nil {
			return Template{}, err
		}
		if len(languages) > 1 {
			return Template{}, fault.New(fault.MissingRequiredField,
				"The template `%s` exists in several languages (%s). Name one in `language`.", name, strings.Join(languages, ", ")).At("language")
		}
	}
	return s.Find(ctx, org, of, name, language)
}

// sameText tells whether two lists of components are equal but for their examples: the provider shows an uploaded file by
// another name than it was given.
func sameText(one, other json.RawMessage) bool {
	var a, b []any
	if json.Unmarshal(one, &a) != nil || json.Unmarshal(other, &b) != nil {
		return false
	}
	return reflect.DeepEqual(withoutExamples(a), withoutExamples(b))
}

func withoutExamples(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = withoutExamples(v[i])
		}
	case map[string]any:
		delete(v, "example")
		for name := range v {
			v[name] = withoutExamples(v[name])
		}
	}
	return value
}

// writeFault turns a failure of the provider into an answer: what it refused is the caller's mistake.
func writeFault(err error) error {
	failed, is := provider.As(err)
	switch {
	case err == nil:
		return nil
	case !is:
		return err
	case failed.Class == provider.AccountFault:
		return fault.New(fault.UpstreamError, "The provider does not let us write templates of this number: %s", failed.Words())
	case failed.Code == fault.LimitReached:
		return fault.New(fault.InvalidFieldValue, "The provider takes no more templates of this business account: %s "+
			"Delete templates that you do not use at the provider, or try again in an hour.", failed.Words()).At(failed.Param)
	case failed.Class == provider.Terminal && failed.Delivery == provider.NotSent:
		return fault.New(fault.InvalidFieldValue, "The provider refused the template: %s", failed.Words()).At(failed.Param)
	default:
		refusal := fault.New(fault.ProviderUpstreamError, "%s Try again in a minute.", failed.Trouble())
		refusal.RetryAfter = failed.RetryAfter
		return refusal
	}
}
