package callbacks

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/together"
	"github.com/parley-chat/parley/internal/provider"
)

// Service is the callbacks of one cell.
type Service struct {
	db, work  *postgres.DB
	clock     clock.Clock
	lanes     *lanes.Lanes
	parser    provider.Callbacks
	audit     *audit.Log
	logger    *slog.Logger
	consumers func() []Consumer
	stores    *together.Asker[[]Part, []Outcome]
}

// Deps is what the service needs.
type Deps struct {
	DB     *postgres.DB
	Work   *postgres.DB // the pool of background work
	Clock  clock.Clock
	Lanes  *lanes.Lanes
	Parser provider.Callbacks
	Audit  *audit.Log
	Logger *slog.Logger
}

// storeTogether is how many requests one transaction stores, storeBeside how many such
// transactions run at the same time.
const storeTogether, storeBeside = 100, 3

// New builds the service.
func New(deps Deps) *Service {
	s := &Service{
		db: deps.DB, work: deps.Work, clock: deps.Clock, lanes: deps.Lanes, parser: deps.Parser, audit: deps.Audit, logger: deps.Logger,
	}
	s.stores = together.New(storeBeside, storeTogether, s.storeAll)
	lanes.Register(s.lanes, s.kind())
	return s
}

// Consume sets the function that makes the consumers of one batch. It must be called before lanes are
// drained. The consumers of a batch share a transaction and run in the given order, which must be that
// of their locks (ARCHITECTURE.md): a consumer that resolves contacts comes before those that lock
// conversations, templates or accounts. Two consumers of a batch may share what the first one found.
func (s *Service) Consume(consumers func() []Consumer) { s.consumers = consumers }

// Store stores the parts of one callback and returns the outcome of each. Requests that arrive
// at the same time share a transaction.
func (s *Service) Store(ctx context.Context, parts []Part) ([]Outcome, error) {
	return s.stores.Ask(ctx, parts)
}

func (s *Service) storeAll(ctx context.Context, callbacks [][]Part) ([][]Outcome, error) {
	var parts []Part
	for _, callback := range callbacks {
		parts = append(parts, callback...)
	}
	outcomes, err := postgres.InSystemTx(ctx, s.db, "store callbacks", func(tx *postgres.Tx) ([]Outcome, error) {
		return s.storeTx(ctx, tx, parts)
	})
	if err != nil {
		return nil, err
	}
	answers := make([][]Outcome, len(callbacks))
	for i, callback := range callbacks {
		answers[i], outcomes = outcomes[:len(callback)], outcomes[len(callback):]
	}
	return answers, nil
}

// storeTx stores each part whose number or business account its organization has, unless the
// organization is frozen. It opens the lanes that do not exist yet, and adds a row for each stored
// part to its lane.
func (s *Service) storeTx(ctx context.Context, tx *postgres.Tx, parts []Part) ([]Outcome, error) {
	stored := make([]ID, len(parts))
	for i := range parts {
		stored[i] = ids.New[Kind](s.clock.Now())
	}
	judged, err := postgres.Many[judgement](ctx, tx, sqlStore, columnsOf(parts, stored))
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(parts))
	var opened []lanes.Lane
	for _, one := range judged {
		i := one.Place - 1
		lane := lanes.Lane{ID: parts[i].lane(), Org: parts[i].OrgID, Kind: laneKind}
		switch {
		case one.Frozen:
			outcomes[i] = Frozen
		case one.Owned:
			outcomes[i] = Stored
			if !one.Open && !slices.Contains(opened, lane) {
				opened = append(opened, lane)
			}
			if err := s.lanes.AddTx(ctx, tx, laneKind, lane.ID, lanes.Row{ID: stored[i].Any()}); err != nil {
				return nil, err
			}
		}
	}
	return outcomes, s.lanes.OpenManyTx(ctx, tx, opened)
}

// WaitingTx tells whether a callback of the number that was stored before a time is not applied yet.
func (s *Service) WaitingTx(ctx context.Context, tx *postgres.Tx, number string, before time.Time) (bool, error) {
	lane := Part{OrgID: tx.Org(), NumberID: number}.lane()
	return s.lanes.WaitingTx(ctx, tx, lane, before)
}

// PurgeStored deletes the callbacks of an account that was disconnected. Its lane stays, because the
// organization may connect the number again; the rows in it find no body.
func (s *Service) PurgeStored(ctx context.Context, org orgs.ID, account accounts.Account, from ids.Any) error {
	return s.purge(ctx, org, account, from, sqlForgetStored)
}

// PurgeItems deletes the items of those callbacks that were set aside.
func (s *Service) PurgeItems(ctx context.Context, org orgs.ID, account accounts.Account, from ids.Any) error {
	return s.purge(ctx, org, account, from, sqlForgetItems)
}

func (s *Service) purge(ctx context.Context, org orgs.ID, account accounts.Account, from ids.Any, sql string) error {
	if account.PhoneNumberID == nil {
		return nil
	}
	return postgres.DeleteInPortions(ctx, s.work, org, sql,
		postgres.Args{"phone_number_id": *account.PhoneNumberID, "generation": account.Generation, "after": from})
}

// List lists the items that were set aside, the newest first: of all organizations, or of one.
func (s *Service) List(ctx context.Context, filter Filter) ([]Item, error) {
	return postgres.Many[Item](ctx, s.db.System("list callbacks"), sqlItems, filter.args())
}

// Reprocess puts items that were set aside back into their lanes, and counts them.
func (s *Service) Reprocess(ctx context.Context, by audit.Principal, filter Filter) (count int, err error) {
	items, err := s.List(ctx, filter)
	if err != nil {
		return 0, err
	}
	byOrg := map[orgs.ID][]Item{}
	for _, item := range items {
		byOrg[item.OrgID] = append(byOrg[item.OrgID], item)
	}
	for org, items := range byOrg {
		again, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (int, error) {
			again, err := s.againTx(ctx, tx, items)
			if err != nil || again == 0 {
				return 0, err
			}
			return again, s.audit.RecordTx(ctx, tx, by, "callbacks.reprocessed", org.String(), map[string]any{"items": again})
		})
		if err != nil {
			return count, err
		}
		count += again
	}
	return count, nil
}

// againTx makes callbacks of items, the oldest first. Items that another call took are left out.
func (s *Service) againTx(ctx context.Context, tx *postgres.Tx, items []Item) (count int, err error) {
	asked := make([]ID, len(items))
	for i, item := range items {
		asked[i] = item.ID
	}
	taken, err := postgres.Many[Item](ctx, tx, sqlTakeItems, postgres.Args{"ids": asked})
	if err != nil {
		return 0, err
	}
	for _, item := range taken {
		lane := stored{PhoneNumberID: item.PhoneNumberID, BusinessAccountID: item.BusinessAccountID}.part(tx.Org()).lane()
		id := ids.New[Kind](s.clock.Now())
		if err := s.lanes.OpenTx(ctx, tx, laneKind, lane); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, sqlInsert, postgres.Args{
			"id":              id,
			"phone_number_id": item.PhoneNumberID, "generation": item.Generation, "business_account_id": item.BusinessAccountID, "body": item.Body,
		}); err != nil {
			return 0, err
		}
		if err := s.lanes.AddTx(ctx, tx, laneKind, lane, lanes.Row{ID: id.Any()}); err != nil {
			return 0, err
		}
	}
	return len(taken), nil
}
