package contacts

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts/identity"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Service is the contacts of one cell.
type Service struct {
	db        *postgres.DB
	work      *postgres.DB
	clock     clock.Clock
	jobs      *jobs.Queue
	labels    *labels.Service
	events    *events.Log
	followers []Follower
}

// Deps are the dependencies of the service.
type Deps struct {
	DB *postgres.DB
	// Work is the pool of background work.
	Work   *postgres.DB
	Clock  clock.Clock
	Jobs   *jobs.Queue
	Labels *labels.Service
	Events *events.Log
}

// New builds the service.
func New(deps Deps) *Service {
	return &Service{db: deps.DB, work: deps.Work, clock: deps.Clock, jobs: deps.Jobs, labels: deps.Labels, events: deps.Events}
}

// Create adds a contact. No other contact may have its number, in any national form, or its
// BSUID.
func (s *Service) Create(ctx context.Context, org orgs.ID, of accounts.Account, draft Draft) (Contact, error) {
	if err := draft.check(); err != nil {
		return Contact{}, err
	}
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Contact, error) {
		now := s.clock.Now()
		sightings := []Sighting{draft.sighting(now)}
		keys := map[string]bool{}
		for _, key := range sightings[0].Keys() {
			keys[key] = true
		}
		if err := lockKeys(ctx, tx, of.ID, keys); err != nil {
			return Contact{}, err
		}
		b, err := s.read(ctx, tx, of, sightings)
		if err != nil {
			return Contact{}, err
		}
		if err := draft.taken(b.resolver); err != nil {
			return Contact{}, err
		}
		made := b.apply(sightings)[0]
		draft.complete(made, now)
		return made.Contact, s.writeTx(ctx, tx, of, b.change())
	})
}

func (d *Draft) sighting(at time.Time) Sighting {
	s := Sighting{At: at}
	for _, field := range []struct {
		given *string
		to    *string
	}{{d.PhoneNumber, &s.PhoneNumber}, {d.BSUID, &s.BSUID}, {d.Username, &s.Username}} {
		if field.given != nil {
			*field.to = *field.given
		}
	}
	return s
}

// complete adds what is not an identifier.
func (d *Draft) complete(made *person, now time.Time) {
	made.Name, made.Email, made.Metadata = d.Name, d.Email, d.Metadata
	if d.Marketing != nil {
		made.wants(*d.Marketing, FromAPI, now)
	}
}

// taken says which contact has an identifier of the draft, or nil. A number that its owner does
// not have any more is free; a BSUID never is.
func (d *Draft) taken(known *identity.Resolver) error {
	if d.PhoneNumber != nil {
		if owner, _, current := known.Owner(identity.NumberKey(*d.PhoneNumber)); current {
			return alreadyExists("phone_number", "this number", owner)
		}
	}
	if d.BSUID != nil {
		if owner, exists, _ := known.Owner(identity.BSUIDKey(*d.BSUID)); exists {
			return alreadyExists("bsuid", "this BSUID", owner)
		}
	}
	return nil
}

func alreadyExists(param, what string, by ID) error {
	return fault.New(fault.AlreadyExists, "There already is a contact with %s: %s.", what, by).At(param)
}

// Get returns one contact.
func (s *Service) Get(ctx context.Context, org orgs.ID, of accounts.Account, id ID) (Contact, error) {
	contact, err := contactByID(ctx, s.db.Of(org), of.ID, id)
	return withLabelsOne(ctx, s.db.Of(org), contact, notFound(err))
}

// List returns a page of an account's contacts, newest first.
func (s *Service) List(
	ctx context.Context, org orgs.ID, of accounts.Account, filter Filter, slice paging.Slice[ID],
) (paging.Page[Contact, ID], error) {
	scope := s.db.Of(org)
	page, err := listContacts(ctx, scope, of.ID, filter, slice)
	if err != nil {
		return page, err
	}
	page.Items, err = withLabels(ctx, scope, page.Items)
	return page, err
}

// Update changes a contact; a patch that changes nothing leaves it untouched.
func (s *Service) Update(ctx context.Context, org orgs.ID, of accounts.Account, id ID, change Patch) (Contact, error) {
	if err := change.check(); err != nil {
		return Contact{}, err
	}
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Contact, error) {
		contact, err := lockContact(ctx, tx, of.ID, id, toChange)
		if err != nil {
			return Contact{}, notFound(err)
		}
		named := contact.Name
		announced, touched := contact.apply(change, s.clock.Now())
		if touched {
			err = s.storeTx(ctx, tx, of, contact, announced)
		}
		if err == nil && !same(named, contact.Name) {
			err = s.tellTx(ctx, tx, []ID{contact.ID})
		}
		return withLabelsOne(ctx, tx, contact, err)
	})
}

// storeTx writes a changed contact and records its event, if one is due.
func (s *Service) storeTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, contact Contact, announced changed) error {
	if err := updateContacts(ctx, tx, []Contact{contact}); err != nil {
		return err
	}
	if len(announced) == 0 {
		return nil
	}
	return s.events.RecordTx(ctx, tx, updatedEvent(of, contact, announced))
}

// Choice is whether a contact wants marketing, and where that came from.
type Choice struct {
	ContactID ID
	Marketing Marketing
	Source    string
	At        time.Time
}

// ChooseTx stores the choices of contacts. A choice older than the stored one changes nothing. The choice of a contact that was
// merged into another is stored at that one.
func (s *Service) ChooseTx(ctx context.Context, tx *postgres.Tx, choices []Choice) error {
	merged, err := aliasesOf(ctx, tx, postgres.Each(choices, func(c Choice) ID { return c.ContactID }))
	if err != nil {
		return err
	}
	choices, wanted := slices.Clone(choices), map[ID]bool{}
	for i := range choices {
		for _, one := range merged {
			if one.ID == choices[i].ContactID {
				choices[i].ContactID = one.Into
			}
		}
		wanted[choices[i].ContactID] = true
	}
	all := slices.Collect(maps.Keys(wanted))
	if err := lockContacts(ctx, tx, all, toChange); err != nil {
		return err
	}
	if merged, err = aliasesOf(ctx, tx, all); err != nil {
		return err
	}
	if len(merged) > 0 {
		return postgres.ErrAgain // merged while this waited for the lock
	}
	known, err := contactsByID(ctx, tx, all)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	var changed []Contact
	for _, contact := range known {
		chose := false
		for _, choice := range choices {
			if choice.ContactID == contact.ID {
				chose = contact.choose(choice.Marketing, choice.Source, choice.At) || chose
			}
		}
		if chose {
			contact.advance(now)
			changed = append(changed, contact)
		}
	}
	return updateContacts(ctx, tx, changed)
}

func notFound(err error) error { return postgres.NotFound(err, "contact", "") }
