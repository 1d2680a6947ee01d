package accounts

import "context"

// Examined is what the provider answers about a number; nothing is stored.
type Examined struct {
	PhoneNumberID string
	ProviderError error
	Subscribed    bool
}

// Examine asks the provider about some numbers of all organizations, for an operator who
// wants to know whether tokens and subscriptions work.
func (s *Service) Examine(ctx context.Context, most int) ([]Examined, error) {
	places, err := leastRecentlyChecked(ctx, s.db.System("examination of numbers"), most)
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
