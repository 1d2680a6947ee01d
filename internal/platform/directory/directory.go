// Package directory knows which organization a key, a token or a number belongs to and in
// which cell each organization lives. It is the one place where something is unique in the
// whole service. It never decides whether a key may be used: the cell is the judge.
package directory

import (
	"context"
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Kind is what a route leads from.
type Kind string

// The kinds of route. Keys and tokens are given as their hash.
const (
	APIKey      Kind = "api_key"
	SetupToken  Kind = "setup_token"
	PhoneNumber Kind = "phone_number"
)

// Home is where an organization lives.
type Home struct {
	Cell  string
	Epoch int64
}

// Route is whose something is. The generation grows each time it changes hands.
type Route struct {
	OrgID      ids.Org
	Generation int64
	Cell       string
	Epoch      int64
}

// Home is where the route's organization lives.
func (r Route) Home() Home { return Home{Cell: r.Cell, Epoch: r.Epoch} }

// ErrUnknown means that the directory has no such route.
var ErrUnknown = errors.New("no such route")

// cached bounds what a process remembers of each sort.
const cached = 200_000

// Directory answers from memory where it can: what leads from a key or token never
// changes, and a home that changed is noticed by the cell, which refuses the old epoch.
// Only what was found is remembered, never that something is missing.
type Directory struct {
	db     *postgres.DB
	clock  clock.Clock
	owners *lru.Cache[routeKey, owner]
	homes  *lru.Cache[ids.Org, Home]
	// step is told each step of a claim; tests stop the process there.
	step func(name string)
}

type routeKey struct {
	kind Kind
	key  string
}

type owner struct {
	org        ids.Org
	generation int64
}

// Option changes a directory for tests.
type Option func(*Directory)

// OnStep calls back at each step of a claim.
func OnStep(step func(name string)) Option { return func(d *Directory) { d.step = step } }

// New builds a directory on its database.
func New(db *postgres.DB, clock clock.Clock, options ...Option) *Directory {
	owners, _ := lru.New[routeKey, owner](cached) // fails only for a size below one
	homes, _ := lru.New[ids.Org, Home](cached)
	d := &Directory{db: db, clock: clock, owners: owners, homes: homes, step: func(string) {}}
	for _, option := range options {
		option(d)
	}
	return d
}

func (d *Directory) scope() postgres.Scope { return d.db.System("directory") }

const sqlFind = `
SELECT r.org_id, r.generation, o.cell, o.epoch
FROM directory.routes r
JOIN directory.org_routes o ON o.org_id = r.org_id
WHERE r.kind = @kind
  AND r.key = @key
  AND r.state <> 'released'`

// Find tells whose something is and where they live, from memory or with one read. A
// claim that is not yet confirmed counts: the cell decides.
func (d *Directory) Find(ctx context.Context, kind Kind, key []byte) (Route, error) {
	if who, known := d.owners.Get(routeKey{kind, string(key)}); known {
		if home, known := d.homes.Get(who.org); known {
			return Route{OrgID: who.org, Generation: who.generation, Cell: home.Cell, Epoch: home.Epoch}, nil
		}
	}
	return d.Reread(ctx, kind, key)
}

// Reread is Find past the memory: for a route that a cell did not know.
func (d *Directory) Reread(ctx context.Context, kind Kind, key []byte) (Route, error) {
	route, err := postgres.One[Route](ctx, d.scope(), sqlFind, postgres.Args{"kind": kind, "key": key})
	if errors.Is(err, postgres.ErrNoRow) {
		d.owners.Remove(routeKey{kind, string(key)})
		return Route{}, ErrUnknown
	}
	if err != nil {
		return Route{}, err
	}
	d.owners.Add(routeKey{kind, string(key)}, owner{org: route.OrgID, generation: route.Generation})
	d.homes.Add(route.OrgID, route.Home())
	return route, nil
}

const sqlHome = `
SELECT cell, epoch
FROM directory.org_routes
WHERE org_id = @org`

// HomeOf tells where an organization lives now.
func (d *Directory) HomeOf(ctx context.Context, org ids.Org) (Home, error) {
	home, err := postgres.One[Home](ctx, d.scope(), sqlHome, postgres.Args{"org": org})
	if errors.Is(err, postgres.ErrNoRow) {
		return Home{}, ErrUnknown
	}
	if err == nil {
		d.homes.Add(org, home)
	}
	return home, err
}

const sqlOrgsOfBusinessAccount = `
SELECT DISTINCT org_id
FROM directory.routes
WHERE business_account_id = @id
ORDER BY org_id`

// OrgsOfBusinessAccount lists who has a number of a business account, or is about to: the
// cell decides.
func (d *Directory) OrgsOfBusinessAccount(ctx context.Context, id string) ([]ids.Org, error) {
	return postgres.Many[ids.Org](ctx, d.scope(), sqlOrgsOfBusinessAccount, postgres.Args{"id": id})
}

// unsettledAfter is how old an unconfirmed step is before it is settled by asking the
// cell. It is far longer than a claimant may take.
const (
	unsettledAfter = 5 * time.Minute
	claimTimeout   = time.Minute
)
