package callbacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/provider"
)

// itemsAtOnce is how many items are applied together at most, out of one body.
const itemsAtOnce = 100

// Why something is in quarantine.
const (
	reasonMalformed = "malformed"       // no JSON object
	reasonNobody    = "no_address"      // names neither a number nor a business account
	reasonNumber    = "unknown_number"  // a number that nobody has
	reasonAccount   = "unknown_account" // a business account of which nobody has a number
)

// address is whom items concern.
type address struct{ number, account string }

// bundle is what one address gets of a body.
type bundle struct {
	address

	bodies [][]byte
}

// store keeps a genuine body: every part of it, in a cell or in quarantine, or it is not
// stored. It tells whether all of it has found somebody.
func (i *Ingress) store(ctx context.Context, body []byte) (found bool, err error) {
	items, err := i.Provider.Parse(body)
	if err != nil || len(items) == 0 {
		return false, i.quarantine(ctx, reasonMalformed, bundle{bodies: [][]byte{body}})
	}
	bundles, err := divide(items, body)
	if err != nil {
		return false, err
	}
	nobodys := make([]string, len(bundles))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(storeBeside)
	for at, one := range bundles {
		group.Go(func() (err error) {
			nobodys[at], err = i.storeBundle(within, one)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	found = true
	for at, reason := range nobodys {
		if reason != "" {
			found = false
			if err := i.quarantine(ctx, reason, bundles[at]); err != nil {
				return false, err
			}
		}
	}
	return found, nil
}

// storeBeside is how many addresses of one body are stored beside each other.
const storeBeside = 8

// divide sorts items by whom they concern, in their order. A body for one address stays as
// it is.
func divide(items []provider.Notification, body []byte) ([]bundle, error) {
	var order []address
	of := map[address][]provider.Notification{}
	for _, item := range items {
		to := address{number: item.NumberID}
		if to.number == "" {
			to.account = item.BusinessAccountID
		}
		if of[to] == nil {
			order = append(order, to)
		}
		of[to] = append(of[to], item)
	}
	bundles := make([]bundle, 0, len(order))
	for _, to := range order {
		one := bundle{address: to}
		if one.account == "" {
			one.account = of[to][0].BusinessAccountID
		}
		if len(order) == 1 && len(items) <= itemsAtOnce {
			one.bodies = [][]byte{body}
			return []bundle{one}, nil
		}
		for some := range slices.Chunk(of[to], itemsAtOnce) {
			joined, err := join(some)
			if err != nil {
				return nil, err
			}
			one.bodies = append(one.bodies, joined)
		}
		bundles = append(bundles, one)
	}
	return bundles, nil
}

// join makes a body of items.
func join(items []provider.Notification) ([]byte, error) {
	type envelope struct {
		Object string            `json:"object"`
		Entry  []json.RawMessage `json:"entry"`
	}
	var all envelope
	for _, item := range items {
		text, err := item.Envelope()
		if err != nil {
			return nil, err
		}
		var one envelope
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, err
		}
		all.Object, all.Entry = one.Object, append(all.Entry, one.Entry...)
	}
	return json.Marshal(all)
}

// storeBundle stores what one address gets, or tells why nobody gets it.
func (i *Ingress) storeBundle(ctx context.Context, one bundle) (nobodys string, err error) {
	switch {
	case one.number != "" && plain(one.number):
		return i.storeForNumber(ctx, one)
	case one.number != "":
		return reasonNumber, nil
	case one.account != "" && plain(one.account):
		return i.storeForAccount(ctx, one)
	case one.account != "":
		return reasonAccount, nil
	default:
		return reasonNobody, nil
	}
}

// storeForNumber asks the directory, first from memory, whose the number is, and the cell
// whether that is so.
func (i *Ingress) storeForNumber(ctx context.Context, one bundle) (nobodys string, err error) {
	for _, find := range []func(context.Context, directory.Kind, []byte) (directory.Route, error){i.Directory.Find, i.Directory.Reread} {
		route, err := find(ctx, directory.PhoneNumber, []byte(one.number))
		if errors.Is(err, directory.ErrUnknown) {
			continue
		}
		if err != nil {
			return "", err
		}
		outcome, err := i.storeIn(ctx, route.Cell, callbacks.Part{
			OrgID: route.OrgID, NumberID: one.number, Generation: route.Generation, BusinessAccountID: knownAccount(one.account),
		}, one.bodies)
		if err != nil || outcome == callbacks.Stored {
			return "", err
		}
	}
	return reasonNumber, nil
}

// storeForAccount gives each organization that has a number of the account its own copy.
func (i *Ingress) storeForAccount(ctx context.Context, one bundle) (nobodys string, err error) {
	owners, err := i.Directory.OrgsOfBusinessAccount(ctx, one.account)
	if err != nil {
		return "", err
	}
	nobodys = reasonAccount
	for _, org := range owners {
		home, err := i.Directory.HomeOf(ctx, org)
		if err != nil {
			return "", err
		}
		outcome, err := i.storeIn(ctx, home.Cell, callbacks.Part{OrgID: org, BusinessAccountID: one.account}, one.bodies)
		if err != nil {
			return "", err
		}
		if outcome == callbacks.Stored {
			nobodys = ""
		}
	}
	return nobodys, nil
}

// storeIn stores the bodies in a cell; all of them share one outcome.
func (i *Ingress) storeIn(ctx context.Context, name string, part callbacks.Part, bodies [][]byte) (callbacks.Outcome, error) {
	served, here := i.Cells[name]
	if !here {
		return callbacks.Absent, fmt.Errorf("cell %s is not served here", name)
	}
	parts := make([]callbacks.Part, len(bodies))
	for at, body := range bodies {
		parts[at] = part
		parts[at].Body = body
	}
	outcomes, err := served.Callbacks.Store(ctx, parts)
	if err != nil {
		return callbacks.Absent, err
	}
	if outcomes[0] == callbacks.Frozen {
		return callbacks.Frozen, errBusy
	}
	return outcomes[0], nil
}

func (i *Ingress) quarantine(ctx context.Context, reason string, one bundle) error {
	i.Logger.InfoContext(ctx, "callback.quarantined", "reason", reason)
	i.WithLabelValues("quarantined").Inc()
	all := make([]directory.Quarantined, len(one.bodies))
	for at, body := range one.bodies {
		all[at] = directory.Quarantined{Reason: reason, Body: body}
		if number := callbacks.Plain(one.number); number != "" {
			all[at].PhoneNumberID = &number
		}
		if account := callbacks.Plain(one.account); account != "" {
			all[at].BusinessAccountID = &account
		}
	}
	return i.Directory.Quarantine(ctx, all...)
}

// maxID is longer than any id of the provider's.
const maxID = 100

// plain ids can be asked for; nobody has others.
func plain(id string) bool {
	return len(id) <= maxID && utf8.ValidString(id) && !strings.ContainsRune(id, 0)
}

// knownAccount is the account that came with a number: for the record only.
func knownAccount(account string) string {
	if !plain(account) {
		return ""
	}
	return account
}

// Reprocess stores what was in quarantine again, and tells how much of it found somebody.
// The rest stays there, under a new name.
func (i *Ingress) Reprocess(ctx context.Context, all []directory.Quarantined) (count int, err error) {
	for _, one := range all {
		found, err := i.store(ctx, one.Body)
		if err != nil {
			return count, err
		}
		if err := i.Directory.LeaveQuarantine(ctx, one.ID); err != nil {
			return count, err
		}
		if found {
			count++
		}
	}
	return count, nil
}
