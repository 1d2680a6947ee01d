package callbacks

import (
	"context"
	"strings"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// received is a stored callback with the items that are to be applied.
type received struct {
	id    ID
	items []Inbound
}

// read reads and parses the bodies of callbacks. A body that does not exist has no entry.
func (s *Service) read(ctx context.Context, org orgs.ID, asked []ids.Any, least, greatest ids.Any) (map[ids.Any]received, error) {
	bodies, err := postgres.Many[stored](ctx, s.work.Of(org), sqlBodies, postgres.Args{"ids": asked, "least": least, "greatest": greatest})
	if err != nil {
		return nil, err
	}
	found := make(map[ids.Any]received, len(bodies))
	for _, one := range bodies {
		found[one.ID.Any()] = s.parse(org, one)
	}
	return found, nil
}

func (s *Service) parse(org orgs.ID, one stored) received {
	part := one.part(org)
	items, err := s.parser.Parse(one.Body)
	if err != nil {
		items = []provider.Notification{{
			NumberID: part.NumberID, BusinessAccountID: part.BusinessAccountID, Raw: one.Body,
			Item: provider.Unknown{Reason: "the stored body cannot be parsed"},
		}}
	}
	parsed := received{id: one.ID, items: make([]Inbound, len(items))}
	for i, item := range items {
		parsed.items[i] = Inbound{Notification: item, Callback: one.ID, Generation: part.Generation}
	}
	return parsed
}

// split divides a callback into its items.
func (r received) split() (parts []received) {
	for i := range r.items {
		parts = append(parts, received{id: r.id, items: r.items[i : i+1]})
	}
	return parts
}

// settleTx applies the items of callbacks.
func (s *Service) settleTx(ctx context.Context, tx *postgres.Tx, all []received) error {
	var items []Inbound
	for _, one := range all {
		items = append(items, one.items...)
	}
	return s.applyTx(ctx, tx, items)
}

// applyTx gives items to the consumers, and sets aside those that no consumer takes.
func (s *Service) applyTx(ctx context.Context, tx *postgres.Tx, items []Inbound) (err error) {
	if len(items) == 0 {
		return nil
	}
	for _, consume := range s.consumers() {
		if items, err = consume(ctx, tx, items); err != nil {
			return err
		}
	}
	return s.keepItemsTx(ctx, tx, Unhandled, "no consumer takes such items yet", items)
}

// setAsideTx makes dead letters of the items of a callback that cannot be applied. Of a callback
// that was never read the whole body becomes one dead letter.
func (s *Service) setAsideTx(ctx context.Context, tx *postgres.Tx, one received, reason string) error {
	if len(one.items) > 0 {
		return s.keepItemsTx(ctx, tx, Dead, reason, one.items)
	}
	_, err := tx.Exec(ctx, sqlKeepBody, postgres.Args{
		"id": one.id, "new_id": ids.New[Kind](s.clock.Now()), "state": Dead, "reason": shortened(reason),
	})
	return err
}

// keepItemsTx keeps items in callback_items.
func (s *Service) keepItemsTx(ctx context.Context, tx *postgres.Tx, state State, reason string, items []Inbound) error {
	if len(items) == 0 {
		return nil
	}
	args := postgres.Columns(items,
		postgres.Col("ids", func(Inbound) ID { return ids.New[Kind](s.clock.Now()) }),
		postgres.Col("fields", func(item Inbound) string { return Storable(item.Field) }),
		postgres.Col("generations", func(item Inbound) int64 { return item.Generation }),
		postgres.Col("numbers", func(item Inbound) *string { return orNil(Storable(item.NumberID)) }),
		postgres.Col("accounts", func(item Inbound) *string { return orNil(Storable(item.BusinessAccountID)) }),
		postgres.Col("bodies", func(item Inbound) []byte {
			if body, err := item.Envelope(); err == nil {
				return body
			}
			return item.Raw
		}))
	args["state"], args["reason"] = state, shortened(reason)
	_, err := tx.Exec(ctx, sqlKeepItems, args)
	return err
}

const maxReason = 500 // bytes

func shortened(reason string) string { return Storable(reason[:min(len(reason), maxReason)]) }

// Storable is text that PostgreSQL can store: valid UTF-8 without NUL.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
