// Package cell creates one instance of every domain service on one database. No other package
// creates them: edges, processes and tests take them from a Cell.
package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/library"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/quota"
	"github.com/parley-chat/parley/internal/domain/retention"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/domain/templates"
	"github.com/parley-chat/parley/internal/domain/timeline"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/hold"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider"
)

// Cell is the services of one database.
type Cell struct {
	Name  string
	DB    *postgres.DB
	Clock clock.Clock

	// Jobs and Lanes are the queues of background work. `parley work` drains them.
	Jobs  *jobs.Queue
	Lanes *lanes.Lanes
	// Hold tells whether the cell is on hold after a restore.
	Hold *hold.Hold

	Audit         *audit.Log
	Orgs          *orgs.Service
	Quota         *quota.Service
	Keys          *apikeys.Service
	Logs          *apilogs.Log
	Labels        *labels.Service
	Events        *events.Log
	Customers     *customers.Service
	Accounts      *accounts.Service
	SetupLinks    *setuplinks.Service
	Templates     *templates.Service
	Contacts      *contacts.Service
	Conversations *conversations.Service
	Webhooks      *webhooks.Service
	Callbacks     *callbacks.Service
	Media         *media.Service
	Library       *library.Service
	Messages      *messages.Service
	Timeline      *timeline.Service
	Retention     *retention.Service
	Idempotency   *idempotency.Store
}

// Deps are the dependencies of a cell.
type Deps struct {
	Name string
	// DB is the pool of requests.
	DB *postgres.DB
	// LogDB is the pool of the API log and the hold, so that neither waits while DB is busy; nil means DB.
	LogDB *postgres.DB
	// WorkDB is the pool of background work; nil means DB.
	WorkDB *postgres.DB
	Clock  clock.Clock
	// Directory has the routes from organizations, keys and numbers to cells.
	Directory *directory.Directory
	// Ring seals and opens secrets; nil for commands that need no secret.
	Ring *sealed.Keyring
	// Posts is the HTTP client for the endpoints of tenants. HostRate is how many posts a second an organization makes
	// to one host; 0 is the default.
	Posts    *safehttp.Client
	HostRate int
	// Provider is the messaging network; nil for commands that never call it.
	Provider provider.Port
	// Bucket is where files of messages are stored; nil stores none. MediaURL is the start of their
	// public URLs.
	Bucket   *bucket.Bucket
	MediaURL string
	// PublicURL is where people reach the pages behind setup links.
	PublicURL string
	// EchoWait is how long a send with an unknown result waits for its callback; zero is the default.
	EchoWait time.Duration
	Logger   *slog.Logger
}

// New creates the services in the order of the foreign keys.
func New(deps Deps) (*Cell, error) {
	logDB, workDB := cmp.Or(deps.LogDB, deps.DB), cmp.Or(deps.WorkDB, deps.DB)
	c := &Cell{Name: deps.Name, DB: deps.DB, Clock: deps.Clock}
	var err error
	if c.Jobs, err = jobs.NewQueue(c.DB, c.Clock, deps.Logger); err != nil {
		return nil, err
	}
	c.Lanes = lanes.New(c.DB, c.Jobs, c.Clock, deps.Logger)
	c.Hold = hold.New(logDB, c.Clock)
	c.Audit = audit.New(c.DB, c.Clock)
	branch := deps.Directory.Branch(c.Name)
	c.Orgs = orgs.New(c.DB, c.Clock, c.Audit, branch)
	c.Quota = quota.New(quota.Deps{DB: c.DB, Work: workDB, Clock: c.Clock, Jobs: c.Jobs, Logger: deps.Logger})
	c.Keys = apikeys.New(c.DB, c.Clock, c.Audit, branch)
	c.Logs = apilogs.New(logDB, telemetry.Repeating(deps.Logger))
	c.Labels = labels.New(c.DB, c.Clock, c.Orgs)
	c.Events = events.New(c.Clock, c.Lanes)
	c.Customers = customers.New(c.DB, c.Clock, c.Orgs, c.Events, c.Audit)
	c.Accounts, err = accounts.New(accounts.Deps{
		DB: c.DB, Work: workDB, Clock: c.Clock, Orgs: c.Orgs, Customers: c.Customers, Audit: c.Audit, Directory: branch,
		Jobs: c.Jobs, Hold: c.Hold, Ring: deps.Ring, Provider: deps.Provider, Logger: deps.Logger,
	})
	if err != nil {
		return nil, err
	}
	c.SetupLinks = setuplinks.New(setuplinks.Deps{
		DB: c.DB, Clock: c.Clock, Orgs: c.Orgs, Customers: c.Customers, Accounts: c.Accounts, Audit: c.Audit, Directory: branch,
		Provider: deps.Provider, PublicURL: deps.PublicURL,
	})
	c.Templates = templates.New(templates.Deps{
		DB: c.DB, Work: workDB, Clock: c.Clock, Accounts: c.Accounts, Jobs: c.Jobs, Provider: deps.Provider, Fetch: deps.Posts,
		Logger: deps.Logger,
	})
	c.Contacts = contacts.New(contacts.Deps{
		DB: c.DB, Work: workDB, Clock: c.Clock, Jobs: c.Jobs, Labels: c.Labels, Events: c.Events,
	})
	c.Conversations = conversations.New(conversations.Deps{
		DB: c.DB, Work: workDB, Clock: c.Clock, Contacts: c.Contacts, Labels: c.Labels, Events: c.Events,
	})
	c.Webhooks, err = webhooks.New(webhooks.Deps{
		DB: c.DB, Work: workDB, Clock: c.Clock, Lanes: c.Lanes, Jobs: c.Jobs, Events: c.Events, Audit: c.Audit,
		Accounts: c.Accounts, Ring: deps.Ring, Client: deps.Posts, HostRate: deps.HostRate, Logger: deps.Logger,
	})
	if err != nil {
		return nil, err
	}
	c.Callbacks = callbacks.New(callbacks.Deps{
		DB: c.DB, Work: workDB, Clock: c.Clock, Lanes: c.Lanes, Parser: deps.Provider, Audit: c.Audit, Logger: deps.Logger,
	})
	c.wire(deps, workDB)
	if deps.Ring == nil {
		return c, nil
	}
	c.Idempotency, err = idempotency.New(deps.Ring, c.Clock)
	return c, err
}

// wire creates the messages, and tells services what others do for them.
func (c *Cell) wire(deps Deps, workDB *postgres.DB) {
	c.Media = media.New(media.Deps{
		DB: c.DB, Work: workDB, Clock: c.Clock, Lanes: c.Lanes, Accounts: c.Accounts, Provider: deps.Provider, Bucket: deps.Bucket,
		BaseURL: deps.MediaURL, Logger: deps.Logger,
	})
	c.Library = library.New(c.DB, c.Clock, c.Orgs, c.Media)
	c.Messages = messages.New(messages.Deps{
		DB: c.DB, Work: workDB, Clock: c.Clock, Lanes: c.Lanes, Orgs: c.Orgs, Accounts: c.Accounts, Templates: c.Templates,
		Contacts: c.Contacts, Conversations: c.Conversations, Callbacks: c.Callbacks, Media: c.Media, Library: c.Library, Events: c.Events,
		Quota:    c.Quota,
		Provider: deps.Provider, Logger: deps.Logger, EchoWait: deps.EchoWait,
	})
	c.Timeline = timeline.New(c.DB, c.Clock, c.Messages, c.Webhooks)
	c.Retention = retention.New(retention.Deps{
		Work: workDB, Clock: c.Clock, Jobs: c.Jobs, Messages: c.Messages, Webhooks: c.Webhooks, Logger: deps.Logger,
	})
	c.Accounts.Equip(c.Messages.OpenLaneTx, c.Media.OpenLaneTx)
	c.Quota.CountWith(c.Messages.CountAccepted)
	// In the order of locks (ARCHITECTURE.md): contacts and conversations, then templates, then accounts,
	// then messages.
	c.Callbacks.Consume(func() []callbacks.Consumer {
		arrivals := c.Messages.Arrivals()
		return []callbacks.Consumer{
			arrivals.PeopleTx, callbacks.OneByOne(c.Templates.NotifiedTx), callbacks.OneByOne(c.Accounts.NotifiedTx), arrivals.MessagesTx,
		}
	})
	c.Contacts.FollowedBy(contacts.Follower{Settle: c.eraseEventsTx})
	c.Accounts.OnPurge(
		c.Messages.Purge, c.Media.Purge, c.Conversations.Purge, c.Contacts.Purge, c.Templates.Purge,
		c.Callbacks.PurgeStored, c.Callbacks.PurgeItems, c.Webhooks.PurgeNumber, c.Media.PurgeWaiting, c.Media.PurgeUploads,
	)
}

// eraseEventsTx erases some events about a contact that was deleted, and tells whether there are more. Those about a contact
// that was joined into another stay until that one is deleted.
func (c *Cell) eraseEventsTx(ctx context.Context, tx *postgres.Tx, departure contacts.Departure) (more bool, err error) {
	if departure.JoinedInto != nil {
		return false, nil
	}
	names, err := c.Contacts.NamesTx(ctx, tx, departure.ID)
	for _, name := range names {
		if more, err := c.Webhooks.EraseContactTx(ctx, tx, name.Any()); err != nil || more {
			return more, err
		}
	}
	return false, err
}

// Handle registers the jobs of every service with the job runner of a process.
func (c *Cell) Handle(set *jobs.Set) {
	c.Quota.Handle(set)
	c.Contacts.Handle(set)
	c.Webhooks.Handle(set)
	c.Accounts.Handle(set)
	c.Templates.Handle(set)
	c.Retention.Handle(set)
}

// LookAfter starts the checks of accounts, the syncs of templates and the recounts of quotas that
// are due, looks for the messages of parked statuses and revocations, records events whose files are late, deletes
// files, and returns how many of these it handled. Every
// process that does background work calls it every 20 s.
func (c *Cell) LookAfter(ctx context.Context) (begun int, err error) {
	asked, accountsErr := c.Accounts.LookAfter(ctx)
	synced, templatesErr := c.Templates.LookAfter(ctx)
	recounted, quotaErr := c.Quota.LookAfter(ctx)
	released, messagesErr := c.Messages.ReleaseParked(ctx)
	late, mediaErr := c.Media.ReleaseLate(ctx)
	deleted, deleteErr := c.Media.DeleteDue(ctx)
	return asked + synced + recounted + released + late + deleted,
		errors.Join(accountsErr, templatesErr, quotaErr, messagesErr, mediaErr, deleteErr)
}

// LookAfterOnHold is LookAfter while the cell is on hold: it adds no job and deletes nothing.
func (c *Cell) LookAfterOnHold(ctx context.Context) (begun int, err error) {
	released, messagesErr := c.Messages.ReleaseParked(ctx)
	late, mediaErr := c.Media.ReleaseLate(ctx)
	return released + late, errors.Join(messagesErr, mediaErr)
}

// RestoreTx creates lanes and jobs from the rows of an organization that moved to this cell.
func (c *Cell) RestoreTx(ctx context.Context, tx *postgres.Tx) error {
	if err := c.Lanes.RebuildTx(ctx, tx); err != nil {
		return err
	}
	return c.Contacts.RestoreTx(ctx, tx)
}

// Holds tells whether the cell has the row of a claim that is still open in the directory. The
// directory then confirms the claim, or else releases it.
func (c *Cell) Holds(ctx context.Context, step directory.Unresolved) (bool, error) {
	switch step.Kind {
	case "":
		_, err := c.Orgs.Get(ctx, step.OrgID)
		if fault.Of(err) == fault.ResourceNotFound {
			return false, nil
		}
		return err == nil, err
	case directory.APIKey:
		return c.Keys.Holds(ctx, step.OrgID, step.Key)
	case directory.SetupToken:
		return c.SetupLinks.Holds(ctx, step.OrgID, step.Key)
	case directory.PhoneNumber:
		return c.Accounts.Holds(ctx, step.OrgID, string(step.Key), step.Generation)
	default:
		return false, fmt.Errorf("cell %s knows no %s", c.Name, step.Kind)
	}
}
