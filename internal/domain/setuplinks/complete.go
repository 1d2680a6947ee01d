package setuplinks

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// Invitation is a link with the names that its pages show.
type Invitation struct {
	Link         Link
	Customer     customers.Customer
	Organization orgs.Organization

	// closed is true while the organization may not connect numbers.
	closed bool
}

// Inactive is true while the customer or the organization may not connect numbers.
func (i Invitation) Inactive() bool { return i.closed || i.Customer.Inactive() }

// Refusal is why the link cannot be used now; empty if it can. That it was used goes before that its customer is inactive.
func (i Invitation) Refusal() Reason {
	refusal := i.Link.refusal(i.Customer)
	if refusal == "" && i.closed {
		return CustomerInactive
	}
	return refusal
}

// InvitationByHash returns the invitation of a token, by its hash. It changes nothing.
func (s *Service) InvitationByHash(ctx context.Context, org orgs.ID, hash []byte) (Invitation, error) {
	link, err := linkByHash(ctx, s.DB.Of(org), hash, s.Clock.Now())
	if err != nil {
		return Invitation{}, notFound(err)
	}
	return s.invitation(ctx, org, link)
}

// Invitation is InvitationByHash by the id of the link.
func (s *Service) Invitation(ctx context.Context, org orgs.ID, id ID) (Invitation, error) {
	link, err := linkByID(ctx, s.DB.Of(org), id, s.Clock.Now())
	if err != nil {
		return Invitation{}, notFound(err)
	}
	return s.invitation(ctx, org, link)
}

func (s *Service) invitation(ctx context.Context, org orgs.ID, link Link) (Invitation, error) {
	customer, err := s.Customers.Get(ctx, org, link.CustomerID)
	if err != nil {
		return Invitation{}, err
	}
	organization, err := s.Orgs.Get(ctx, org)
	if err != nil {
		return Invitation{}, err
	}
	return Invitation{Link: link, Customer: customer, Organization: organization, closed: !mayConnect(organization, s.Clock.Now())}, nil
}

// mayConnect tells whether the organization may connect numbers.
func mayConnect(o orgs.Organization, now time.Time) bool {
	standing := orgs.Standing{SubscriptionStatus: o.SubscriptionStatus, TrialEndsAt: o.TrialEndsAt, SuspendedAt: o.SuspendedAt}
	return standing.Refuses() == nil && standing.RefusesWrites(now) == nil
}

// callbackPath is where the provider's dialog comes back to.
const callbackPath = "/setup/callback"

// DialogURL is the provider's page on which a business grants access. It comes back with the state.
func (s *Service) DialogURL(state string) string {
	return s.Provider.SignupURL(provider.SignupDialog{RedirectURL: s.PublicURL + callbackPath, State: state, Coexistence: true})
}

// Grant exchanges the code that the dialog came back with for a token.
func (s *Service) Grant(ctx context.Context, code string) (provider.Token, error) {
	grant, err := s.Provider.ExchangeCode(ctx, provider.SignupCode{Code: code, RedirectURL: s.PublicURL + callbackPath})
	if err != nil {
		return provider.Token{}, providerFault(err)
	}
	return grant.Token, nil
}

// Choice is a number that the token may connect.
type Choice struct {
	Number            provider.NumberState
	BusinessAccountID string
}

// Choices asks the provider which numbers a token was granted, and returns those that are not connected yet. If all
// are connected, it returns those of the link's own customer: these are connected again.
func (s *Service) Choices(ctx context.Context, org orgs.ID, link Link, token provider.Token) ([]Choice, error) {
	granted, err := s.grantedNumbers(ctx, token)
	if err != nil {
		return nil, err
	}
	var free, own []Choice
	for _, choice := range granted {
		_, err := s.Directory.Reread(ctx, directory.PhoneNumber, []byte(choice.Number.ID))
		if errors.Is(err, directory.ErrUnknown) {
			free = append(free, choice)
			continue
		}
		if err != nil {
			return nil, err
		}
		account, err := s.Accounts.Find(ctx, org, choice.Number.ID)
		if err == nil && account.CustomerID != nil && *account.CustomerID == link.CustomerID {
			own = append(own, choice)
		} else if err != nil && fault.Of(err) != fault.ResourceNotFound {
			return nil, err
		}
	}
	switch {
	case len(free) > 0:
		return free, nil
	case len(own) > 0:
		return own, nil
	case len(granted) > 0:
		return nil, refuse(NumberInUse, nil)
	default:
		return nil, nil
	}
}

// grantedNumbers are all numbers of a token: the provider says which, never the browser.
func (s *Service) grantedNumbers(ctx context.Context, token provider.Token) (all []Choice, err error) {
	state, err := s.Provider.InspectToken(ctx, token)
	if err != nil {
		return nil, providerFault(err)
	}
	if !state.Valid || !state.CanSend || !state.CanManage {
		return nil, refuse(ProviderError, fault.New(fault.UpstreamError, "The provider granted too little to connect a number."))
	}
	for _, id := range state.BusinessAccounts {
		numbers, err := s.Provider.ListNumbers(ctx, provider.BusinessAccount{ID: id, Token: token})
		if err != nil {
			return nil, providerFault(err)
		}
		for _, number := range numbers {
			all = append(all, Choice{Number: number, BusinessAccountID: id})
		}
	}
	return all, nil
}

func providerFault(err error) error {
	return refuse(ProviderError, errors.Join(fault.New(fault.ProviderUpstreamError, "The provider did not do what a setup link needs."), err))
}

// Visitor is a person who uses a link.
type Visitor struct {
	Address string
	// Session names the browser. The row keeps its hash, so that this browser sees the outcome again.
	Session string
}

func (v Visitor) hash() []byte {
	digest := sha256.Sum256([]byte(v.Session))
	return digest[:]
}

// ConsumedBy tells whether this visitor has used the link.
func (l Link) ConsumedBy(v Visitor) bool {
	return l.Status == Consumed && subtle.ConstantTimeCompare(l.SessionHash, v.hash()) == 1
}

var (
	// ErrBusy means that another request is connecting a number by this link.
	ErrBusy = errors.New("the link is being used by another request")
	// ErrNotGranted means that the token was not granted the number, or that the number is connected already.
	ErrNotGranted = errors.New("the number is none of the choices")
)

const (
	// completing is how long a completion keeps others out. One that died is forgotten after that.
	completing = time.Minute
	// releaseTimeout bounds the end of a completion that failed.
	releaseTimeout = 5 * time.Second
)

// Completion is a number that was connected by a link.
type Completion struct {
	Account accounts.Account
	// Number is what the provider told of it.
	Number provider.NumberState
}

// Complete connects one of the numbers that the token was granted. Link, customer, account and both events commit in
// one transaction. Of several calls for one link one succeeds; the others return ErrBusy or a refusal.
func (s *Service) Complete(
	ctx context.Context, org orgs.ID, by Visitor, id ID, token provider.Token, phoneNumberID string,
) (Completion, error) {
	link, err := s.begin(ctx, org, id)
	if err != nil {
		return Completion{}, err
	}
	inTime, cancelCompletion := context.WithTimeout(ctx, completing/2)
	defer cancelCompletion()
	done, err := s.complete(inTime, org, by, link, token, phoneNumberID)
	if err == nil {
		return done, nil
	}
	// The caller may be gone: the link is usable again all the same.
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_, releaseErr := postgres.InTx(release, s.DB, org, func(tx *postgres.Tx) (Link, error) {
		return link, releaseLease(release, tx, id, *link.CompletingUntil)
	})
	return Completion{}, errors.Join(asRefusal(err), releaseErr)
}

// begin keeps other requests from using the link, or says why it cannot be used.
func (s *Service) begin(ctx context.Context, org orgs.ID, id ID) (Link, error) {
	invited, err := s.Invitation(ctx, org, id)
	if err != nil {
		return Link{}, err
	}
	return postgres.InTx(ctx, s.DB, org, func(tx *postgres.Tx) (Link, error) {
		now := s.Clock.Now()
		link, err := lockLinkByID(ctx, tx, id, now)
		if err != nil {
			return Link{}, notFound(err)
		}
		invited.Link = link
		if refusal := invited.Refusal(); refusal != "" {
			return Link{}, refuse(refusal, nil)
		}
		if link.CompletingUntil != nil && now.Before(*link.CompletingUntil) {
			return Link{}, ErrBusy
		}
		link.CompletingUntil = new(now.Add(completing))
		return link, takeLease(ctx, tx, id, *link.CompletingUntil)
	})
}

func (s *Service) complete(
	ctx context.Context, org orgs.ID, by Visitor, link Link, token provider.Token, phoneNumberID string,
) (Completion, error) {
	choices, err := s.Choices(ctx, org, link, token)
	if err != nil {
		return Completion{}, err
	}
	at := slices.IndexFunc(choices, func(c Choice) bool { return c.Number.ID == phoneNumberID })
	if at < 0 {
		return Completion{}, ErrNotGranted
	}
	principal := audit.ByLink(link.ID)
	account, err := s.Accounts.ConnectWith(ctx, org, principal, accounts.Draft{
		CustomerID: &link.CustomerID, BusinessAccountID: choices[at].BusinessAccountID, PhoneNumberID: phoneNumberID, Token: token,
	}, func(ctx context.Context, tx *postgres.Tx, attach func() (accounts.Account, error)) (accounts.Account, error) {
		account, err := s.completeTx(ctx, tx, by, link, choices[at], attach)
		if err != nil {
			return accounts.Account{}, err
		}
		return account, s.Audit.RecordTx(ctx, tx, principal, "setup_link.consumed", link.ID.String(), map[string]any{
			forCustomer: link.CustomerID.String(), "phone_number_id": phoneNumberID, "address": by.Address,
		})
	})
	return Completion{Account: account, Number: choices[at].Number}, err
}

func (s *Service) completeTx(
	ctx context.Context, tx *postgres.Tx, by Visitor, link Link, choice Choice, attach func() (accounts.Account, error),
) (account accounts.Account, err error) {
	_, err = s.Customers.ChangeTx(ctx, tx, link.CustomerID, func(customer *customers.Customer) error {
		now := s.Clock.Now()
		link, err := lockLinkByID(ctx, tx, link.ID, now)
		if err != nil {
			return notFound(err)
		}
		if refusal := link.refusal(*customer); refusal != "" {
			return refuse(refusal, nil)
		}
		if account, err = attach(); err != nil {
			return err
		}
		if link, err = consumeLink(ctx, tx, link.ID, account.ID, by.hash(), now); err != nil {
			return notFound(err)
		}
		customer.Activate(now)
		err = s.Customers.AnnounceTx(ctx, tx, events.CustomerOnboarded, customer, onboarded{
			CustomerID: customer.ID, AccountID: account.ID, PhoneNumberID: account.PhoneNumberID, PhoneNumber: choice.Number.Display,
		})
		if err != nil {
			return err
		}
		return s.Customers.AnnounceTx(ctx, tx, events.SetupLinkConsumed, customer, consumed{
			CustomerID: customer.ID, SetupLink: link.Resource(), AccountID: account.ID,
		})
	})
	return account, err
}

// asRefusal turns errors of connecting into refusals that name what the person is told. Others stay as they are.
func asRefusal(err error) error {
	if _, refused := errors.AsType[*RefusalError](err); refused {
		return err
	}
	switch fault.Of(err) {
	case fault.AlreadyExists:
		return refuse(NumberInUse, err)
	case fault.UpstreamError, fault.ProviderUpstreamError:
		return refuse(ProviderError, err)
	default:
		return err
	}
}
