// Package cell bundles one database with one instance of every service on it. It is the
// only place that wires domain services; edges, processes and tests all take theirs here.
package cell

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
)

// Cell is the services of one database.
type Cell struct {
	Name  string
	DB    *postgres.DB
	Clock clock.Clock

	// Jobs and Lanes carry what is not done at once; a process that works drains them.
	Jobs  *jobs.Queue
	Lanes *lanes.Lanes

	Audit       *audit.Log
	Orgs        *orgs.Service
	Keys        *apikeys.Service
	Logs        *apilogs.Log
	Labels      *labels.Service
	Idempotency *idempotency.Store
}

// Deps is what a cell stands on.
type Deps struct {
	Name string
	DB   *postgres.DB
	// LogDB takes the API log, so that a busy pool does not lose it; nil takes DB.
	LogDB *postgres.DB
	Clock clock.Clock
	// Directory is where this cell's organizations and keys are made known.
	Directory *directory.Directory
	// Ring opens what is sealed; without it a cell can only do what needs no secret.
	Ring   *sealed.Keyring
	Logger *slog.Logger
}

// New wires the services in the order of the foreign keys.
func New(deps Deps) (*Cell, error) {
	logDB := deps.LogDB
	if logDB == nil {
		logDB = deps.DB
	}
	c := &Cell{Name: deps.Name, DB: deps.DB, Clock: deps.Clock}
	var err error
	if c.Jobs, err = jobs.NewQueue(c.DB, c.Clock, deps.Logger); err != nil {
		return nil, err
	}
	c.Lanes = lanes.New(c.DB, c.Jobs, c.Clock, deps.Logger)
	c.Audit = audit.New(c.DB, c.Clock)
	branch := deps.Directory.Branch(c.Name)
	c.Orgs = orgs.New(c.DB, c.Clock, c.Audit, branch)
	c.Keys = apikeys.New(c.DB, c.Clock, c.Audit, branch)
	c.Logs = apilogs.New(logDB, deps.Logger)
	c.Labels = labels.New(c.DB, c.Clock, c.Orgs)
	if deps.Ring == nil {
		return c, nil
	}
	c.Idempotency, err = idempotency.New(deps.Ring, c.Clock)
	return c, err
}

// Holds answers the directory, which asks what became of a step that nobody finished.
func (c *Cell) Holds(ctx context.Context, step directory.Unsettled) (bool, error) {
	switch step.Kind {
	case "":
		_, err := c.Orgs.Get(ctx, step.OrgID)
		if fault.Of(err) == fault.ResourceNotFound {
			return false, nil
		}
		return err == nil, err
	case directory.APIKey:
		return c.Keys.Holds(ctx, step.OrgID, step.Key)
	default:
		return false, fmt.Errorf("cell %s knows no %s", c.Name, step.Kind)
	}
}
