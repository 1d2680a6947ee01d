// Package directory knows which organization a key, a token or a number belongs to, and in
// which cell each organization lives. Whatever must be unique in the whole service is unique
// here. The directory never decides whether a key may be used: the cell does.
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

// Kind is the kind of thing that a route belongs to.
type Kind string

// The kinds of route. The key of an API key or setup token is its hash.
const (
	APIKey      Kind = "api_key"
	SetupToken  Kind = "setup_token"
	PhoneNumber Kind = "phone_number"
)

// Home is the cell in which an organization lives.
type Home struct {
	// Cell is the name of the cell.
	Cell string
	// Epoch grows with each move of the organization.
	Epoch int64
}

// Route is the owner of a key, token or number. The generation grows with each new owner.
type Route struct {
	OrgID      ids.Org
	Generation int64
	Cell       string
	Epoch      int64
}

// Home returns the cell in which the route's organization lives.
func (r Route) Home() Home { return Home{Cell: r.Cell, Epoch: r.Epoch} }

// ErrUnknown means that the directory has no such route.
var ErrUnknown = errors.New("no such route")

// cached is the number of owners, and of homes, that a process caches at most.
const cached = 200_000

// Directory caches owners and homes. A cached owner may be out of date for a number, and a
// cached home after a move: the cell then refuses the old generation or epoch, and the caller
// uses Reread or HomeOf. That a route is missing is never cached.
type Directory struct {
	db     *postgres.DB
	clock  clock.Clock
	owners *lru.Cache[routeKey, owner]
	homes  *lru.Cache[ids.Org, Home]
	// step is called after each step of a claim or release; tests kill the process there.
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

// OnStep sets a function that is called after each step of a claim or release.
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

// Find returns the owner of a key, token or number and the owner's home, from the cache or
// with one read. It also finds a claim that is not confirmed yet: the cell decides.
func (d *Directory) Find(ctx context.Context, kind Kind, key []byte) (Route, error) {
	if route, known := d.Cached(kind, key); known {
		return route, nil
	}
	return d.Reread(ctx, kind, key)
}

// Cached is Find without a read.
func (d *Directory) Cached(kind Kind, key []byte) (_ Route, known bool) {
	owner, known := d.owners.Get(routeKey{kind, string(key)})
	if !known {
		return Route{}, false
	}
	home, known := d.homes.Get(owner.org)
	return Route{OrgID: owner.org, Generation: owner.generation, Cell: home.Cell, Epoch: home.Epoch}, known
}

// Reread is Find without the cache, for a cached route that the cell refused.
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

// HomeOf reads the home of an organization without the cache.
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

// OrgsOfBusinessAccount lists the organizations with a number of a business account. Claims
// that are not confirmed yet count: the cell decides.
func (d *Directory) OrgsOfBusinessAccount(ctx context.Context, id string) ([]ids.Org, error) {
	return postgres.Many[ids.Org](ctx, d.scope(), sqlOrgsOfBusinessAccount, postgres.Args{"id": id})
}

const (
	// resolveAfter is the age at which Resolve asks the cell about a claim or release that is
	// not finished. It is far longer than claimTimeout.
	resolveAfter = 5 * time.Minute
	// claimTimeout bounds the commit in the cell.
	claimTimeout = time.Minute
)
