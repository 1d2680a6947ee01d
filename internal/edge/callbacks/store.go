package callbacks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/provider"
)

// itemsPerBody is how many items one stored body has at most. A stored body is applied as a
// whole, in one transaction.
const itemsPerBody = 100

// Why a body is in quarantine.
const (
	reasonMalformed = "malformed"       // no JSON object
	reasonNobody    = "no_address"      // names neither a number nor a business account
	reasonNumber    = "unknown_number"  // names a number that no organization has
	reasonAccount   = "unknown_account" // names a business account of which no organization has a number
	reasonLater     = "connected_later" // names what its organization connected after the body came
)

// storeBeside is how many addresses of one body are stored concurrently.
const storeBeside = 8

// store divides a verified body by address and stores every part, in a cell or in quarantine.
// An error means that the provider must push the body again. It returns why parts went to quarantine. receivedAt is when a
// body came that was in quarantine since; zero for one that comes now.
func (i *Ingress) store(ctx context.Context, body []byte, receivedAt time.Time) (declined []string, err error) {
	parts, err := i.Provider.Divide(body, itemsPerBody)
	if err != nil {
		return []string{reasonMalformed}, i.quarantine(ctx, reasonMalformed, provider.Addressed{Bodies: [][]byte{body}}, receivedAt)
	}
	reasons := make([]string, len(parts))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(storeBeside)
	for at, part := range parts {
		group.Go(func() (err error) {
			reasons[at], err = i.storePart(within, part, receivedAt)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for at, reason := range reasons {
		if reason == "" {
			continue
		}
		if err := i.quarantine(ctx, reason, parts[at], receivedAt); err != nil {
			return nil, err
		}
		if !slices.Contains(declined, reason) {
			declined = append(declined, reason)
		}
	}
	return declined, nil
}

// storePart stores what one address gets, or returns why it belongs in quarantine.
func (i *Ingress) storePart(ctx context.Context, part provider.Addressed, receivedAt time.Time) (reason string, err error) {
	switch {
	case part.NumberID != "" && plausible(part.NumberID):
		return i.storeForNumber(ctx, part, receivedAt)
	case part.NumberID != "":
		return reasonNumber, nil
	case part.BusinessAccountID != "" && plausible(part.BusinessAccountID):
		return i.storeForAccount(ctx, part, receivedAt)
	case part.BusinessAccountID != "":
		return reasonAccount, nil
	default:
		return reasonNobody, nil
	}
}

// storeForNumber looks the number up in the directory, first in its cache. The cell checks the route
// when it stores. If the cell refuses, or its copy of the organization is frozen, the cache may be
// stale and is bypassed once: a copy stays frozen after its organization has moved to another cell.
func (i *Ingress) storeForNumber(ctx context.Context, part provider.Addressed, receivedAt time.Time) (reason string, err error) {
	frozen := false
	reason = reasonNumber
	for _, find := range []func(context.Context, directory.Kind, []byte) (directory.Route, error){i.Directory.Find, i.Directory.Reread} {
		route, err := find(ctx, directory.PhoneNumber, []byte(part.NumberID))
		if errors.Is(err, directory.ErrUnknown) {
			continue
		}
		if err != nil {
			return "", err
		}
		to := callbacks.Part{OrgID: route.OrgID, NumberID: part.NumberID, Generation: route.Generation, ReceivedAt: receivedAt}
		if plausible(part.BusinessAccountID) {
			to.BusinessAccountID = part.BusinessAccountID
		}
		outcome, err := i.storeIn(ctx, route.Cell, to, part.Bodies)
		if err != nil || outcome == callbacks.Stored {
			return "", err
		}
		frozen = outcome == callbacks.Frozen
		if !receivedAt.IsZero() {
			reason = reasonLater
		}
	}
	if frozen {
		return "", errBusy
	}
	return reason, nil
}

// storeForAccount stores a copy for each organization that has a number of the account.
func (i *Ingress) storeForAccount(ctx context.Context, part provider.Addressed, receivedAt time.Time) (reason string, err error) {
	owners, err := i.Directory.OrgsOfBusinessAccount(ctx, part.BusinessAccountID)
	if err != nil {
		return "", err
	}
	reason = reasonAccount
	for _, org := range owners {
		home, err := i.Directory.HomeOf(ctx, org)
		if err != nil {
			return "", err
		}
		to := callbacks.Part{OrgID: org, BusinessAccountID: part.BusinessAccountID, ReceivedAt: receivedAt}
		outcome, err := i.storeIn(ctx, home.Cell, to, part.Bodies)
		if err != nil {
			return "", err
		}
		switch outcome {
		case callbacks.Stored:
			reason = ""
		case callbacks.Frozen:
			return "", errBusy
		case callbacks.Absent:
			if reason != "" && !receivedAt.IsZero() {
				reason = reasonLater
			}
		}
	}
	return reason, nil
}

// storeIn stores bodies of one address in a cell. All of them have the same outcome.
func (i *Ingress) storeIn(ctx context.Context, name string, to callbacks.Part, bodies [][]byte) (callbacks.Outcome, error) {
	cell, served := i.Cells[name]
	if !served {
		return callbacks.Absent, fmt.Errorf("this process does not serve cell %s", name)
	}
	parts := make([]callbacks.Part, len(bodies))
	for at, body := range bodies {
		parts[at] = to
		parts[at].Body = body
	}
	outcomes, err := cell.Callbacks.Store(ctx, parts)
	if err != nil {
		return callbacks.Absent, err
	}
	return outcomes[0], nil
}

func (i *Ingress) quarantine(ctx context.Context, reason string, part provider.Addressed, receivedAt time.Time) error {
	i.Logger.InfoContext(ctx, "callback.quarantined", "reason", reason)
	i.WithLabelValues("quarantined").Inc()
	all := make([]directory.Quarantined, len(part.Bodies))
	for at, body := range part.Bodies {
		all[at] = directory.Quarantined{Reason: reason, Body: body, ReceivedAt: receivedAt}
		if number := callbacks.Storable(part.NumberID); number != "" {
			all[at].PhoneNumberID = &number
		}
		if account := callbacks.Storable(part.BusinessAccountID); account != "" {
			all[at].BusinessAccountID = &account
		}
	}
	return i.Directory.Quarantine(ctx, all...)
}

// maxID is longer than any id of the provider, in bytes.
const maxID = 100

// plausible reports whether an id can be looked up: PostgreSQL stores no NUL and no invalid
// UTF-8.
func plausible(id string) bool {
	return len(id) <= maxID && utf8.ValidString(id) && !strings.ContainsRune(id, 0)
}

// Declined is a quarantined body of which a part stays in quarantine.
type Declined struct {
	ID      directory.QuarantineID
	Reasons []string
}

// Reprocess stores quarantined bodies again, counts those whose parts all went to a cell, and tells why others did not.
// Parts that still have no owner enter quarantine again, under a new id with the time of the old one. So do parts whose
// number was connected after they came: they may be what people wrote to its owner before.
func (i *Ingress) Reprocess(ctx context.Context, all []directory.Quarantined) (count int, declined []Declined, err error) {
	for _, one := range all {
		reasons, err := i.store(ctx, one.Body, one.ID.CreatedAt())
		if err != nil {
			return count, declined, err
		}
		if err := i.Directory.LeaveQuarantine(ctx, one.ID); err != nil {
			return count, declined, err
		}
		if len(reasons) == 0 {
			count++
			continue
		}
		declined = append(declined, Declined{ID: one.ID, Reasons: reasons})
	}
	return count, declined, nil
}
