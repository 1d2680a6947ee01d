package callbacks

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
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
	logger    *slog.Logger
	consumers []Consumer
	stores    *together.Asker[[]Part, []Outcome]
	apart     apart
}

// Deps is what the service stands on.
type Deps struct {
	DB     *postgres.DB
	Work   *postgres.DB // the pool of background work
	Clock  clock.Clock
	Lanes  *lanes.Lanes
	Parser provider.Callbacks
	Logger *slog.Logger
}

const (
	laneKind = "callbacks"
	// Numbers that a process works for at once, and callbacks of one of them.
	workers, slowWorkers    = 32, 8
	leastAtOnce, mostAtOnce = 32, 128
	// applyTimeout is for the items of one callback, each in a transaction of its own.
	applyTimeout = time.Minute
	// Requests that are stored by one transaction, and such transactions beside each other.
	storeTogether, storeBeside = 100, 3
)

// New builds the service.
func New(deps Deps) *Service {
	s := &Service{
		db: deps.DB, work: deps.Work, clock: deps.Clock, lanes: deps.Lanes, parser: deps.Parser, logger: deps.Logger,
		apart: apart{rows: map[ids.Any]bool{}},
	}
	s.stores = together.New(storeBeside, storeTogether, s.storeAll)
	s.lanes.Register(lanes.Kind{
		Name: laneKind, Open: s.open, Restore: s.restoreTx, Least: leastAtOnce, Most: mostAtOnce, Timeout: applyTimeout,
		Workers: workers, SlowWorkers: slowWorkers,
	})
	return s
}

// Consume adds a consumer. It is called before anything is applied.
func (s *Service) Consume(consumers ...Consumer) { s.consumers = append(s.consumers, consumers...) }

// Store keeps the parts of one callback, and tells of each what became of it. What came at
// the same time is committed together.
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

func (s *Service) storeTx(ctx context.Context, tx *postgres.Tx, parts []Part) ([]Outcome, error) {
	now := s.clock.Now()
	judged, err := postgres.Many[judgement](ctx, tx, sqlStore, columnsOf(parts, now))
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(parts))
	for _, one := range judged {
		switch {
		case one.Frozen:
			outcomes[one.Place-1] = Frozen
		case one.Held:
			outcomes[one.Place-1] = Stored
			s.lanes.TouchTx(tx, laneKind, parts[one.Place-1].lane())
		}
	}
	return outcomes, nil
}

// restoreTx has what was not applied wait again.
func (s *Service) restoreTx(ctx context.Context, tx *postgres.Tx) error {
	waiting, err := postgres.Many[stored](ctx, tx, sqlUnapplied, nil)
	if err != nil {
		return err
	}
	rows := map[ids.Any][]lanes.Row{}
	for _, one := range waiting {
		lane := one.part(tx.Org()).lane()
		rows[lane] = append(rows[lane], lanes.Row{ID: one.ID.Any(), DueAt: one.ID.CreatedAt()})
	}
	for _, lane := range slices.SortedFunc(maps.Keys(rows), ids.Any.Compare) {
		if err := s.lanes.OpenTx(ctx, tx, laneKind, lane); err != nil {
			return err
		}
		if err := s.lanes.AddTx(ctx, tx, laneKind, lane, rows[lane]...); err != nil {
			return err
		}
	}
	return nil
}

// Purge removes what is kept of an account that was disconnected. Its lane finds nothing
// any more; it may be that of the next who connects the number.
func (s *Service) Purge(ctx context.Context, org orgs.ID, account accounts.Account) error {
	if account.PhoneNumberID == nil {
		return nil
	}
	args := postgres.Args{"phone_number_id": *account.PhoneNumberID, "generation": account.Generation}
	if err := postgres.DeleteInPortions(ctx, s.work, org, sqlForgetStored, args); err != nil {
		return err
	}
	return postgres.DeleteInPortions(ctx, s.work, org, sqlForgetItems, args)
}

// List shows what was set aside in all organizations, or in one, the newest first.
func (s *Service) List(ctx context.Context, filter Filter) ([]Item, error) {
	return postgres.Many[Item](ctx, s.db.System("list callbacks"), sqlItems, filter.args())
}

// Reprocess has items applied again that were set aside, and tells how many.
func (s *Service) Reprocess(ctx context.Context, filter Filter) (count int, err error) {
	items, err := s.List(ctx, filter)
	if err != nil {
		return 0, err
	}
	byOrg := map[orgs.ID][]Item{}
	for _, item := range items {
		byOrg[item.OrgID] = append(byOrg[item.OrgID], item)
	}
	for org, items := range byOrg {
		again, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (int, error) { return s.againTx(ctx, tx, items) })
		if err != nil {
			return count, err
		}
		count += again
	}
	return count, nil
}

// againTx makes callbacks of items, the oldest first. What somebody else took meanwhile is left.
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
		part := stored{PhoneNumberID: item.PhoneNumberID, BusinessAccountID: item.BusinessAccountID}.part(tx.Org())
		id := ids.New[Kind](s.clock.Now())
		if err := s.lanes.OpenTx(ctx, tx, laneKind, part.lane()); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, sqlInsert, postgres.Args{
			"id":              id,
			"phone_number_id": item.PhoneNumberID, "generation": item.Generation, "business_account_id": item.BusinessAccountID, "body": item.Body,
		}); err != nil {
			return 0, err
		}
		if err := s.lanes.AddTx(ctx, tx, laneKind, part.lane(), lanes.Row{ID: id.Any()}); err != nil {
			return 0, err
		}
	}
	return len(taken), nil
}
