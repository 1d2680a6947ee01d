package accounts

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Examined is how a number does when the provider is asked; nothing is written down.
type Examined struct {
	PhoneNumberID string
	ProviderError error
	Subscribed    bool
}

const sqlToExamine = `
SELECT org_id, id
FROM accounts
WHERE deleted_at IS NULL
  AND phone_number_id IS NOT NULL
ORDER BY checked_at
LIMIT @limit`

// Examine asks the provider about some numbers of all organizations, for an operator who
// wants to know whether tokens and subscriptions work.
func (s *Service) Examine(ctx context.Context, most int) ([]Examined, error) {
	type place struct {
		OrgID orgs.ID
		ID    ID
	}
	places, err := postgres.Many[place](ctx, s.db.System("examination of numbers"), sqlToExamine, postgres.Args{"limit": most})
	if err != nil {
		return nil, err
	}
	var all []Examined
	for _, at := range places {
		account, err := accountByID(ctx, s.db.Of(at.OrgID), at.ID)
		if err != nil {
			return all, err
		}
		one := Examined{PhoneNumberID: *account.PhoneNumberID}
		number, err := s.Number(at.OrgID, account)
		if err != nil {
			return all, err
		}
		business, err := s.BusinessAccount(at.OrgID, account)
		if err != nil {
			return all, err
		}
		if _, one.ProviderError = s.provider.FetchNumber(ctx, number); one.ProviderError == nil {
			one.Subscribed, one.ProviderError = s.provider.Subscribed(ctx, business)
		}
		all = append(all, one)
	}
	return all, nil
}
