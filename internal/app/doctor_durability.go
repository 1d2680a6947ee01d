package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// durability is what decides whether a committed change survives a crash of the server, or a failover.
type durability struct {
	Fsync             string
	FullPageWrites    string
	SynchronousCommit string
	// SynchronousStandbyNames is empty if commits wait for no standby.
	SynchronousStandbyNames string
	// Standbys is how many are attached. Subscribers of logical replication are none: nobody fails over to them.
	Standbys int
}

const sqlDurability = `
SELECT current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') AS synchronous_standby_names,
       (SELECT count(*)::int
        FROM pg_stat_replication r
        WHERE r.state IS DISTINCT FROM 'backup'
          AND NOT EXISTS (
              SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')) AS standbys`

// doctorDurability warns of settings with which an answered change can be lost.
func doctorDurability(ctx context.Context, db *postgres.DB, name func(string) string) []Finding {
	found, err := postgres.One[durability](ctx, db.System("durability"), sqlDurability, nil)
	if err != nil {
		return []Finding{{Name: name("durability"), Found: oneLine(err), Fix: "start PostgreSQL"}}
	}
	return []Finding{found.crash(name("durability")), found.failover(name("standby"))}
}

// crash is about a crash of the server or its machine.
func (d durability) crash(name string) Finding {
	var off []string
	for _, setting := range [][2]string{
		{"fsync", d.Fsync}, {"full_page_writes", d.FullPageWrites}, {"synchronous_commit", d.SynchronousCommit},
	} {
		if setting[1] == "off" {
			off = append(off, setting[0])
		}
	}
	switch {
	case len(off) == 0:
		return Finding{Name: name, Found: "a crash of the server loses no committed change"}
	case d.Fsync == "off" || d.FullPageWrites == "off":
		return Finding{
			Name: name, Found: strings.Join(off, ", ") + " off: a crash of the machine can destroy the database",
			Fix: "turn on " + strings.Join(off, ", ") + " in PostgreSQL", Warning: true,
		}
	default:
		return Finding{
			Name: name, Found: "synchronous_commit off: a crash loses changes that were answered just before",
			Fix: "turn on synchronous_commit in PostgreSQL", Warning: true,
		}
	}
}

// failover is about the loss of the server.
func (d durability) failover(name string) Finding {
	waits := d.SynchronousStandbyNames != "" && d.SynchronousCommit != "off" && d.SynchronousCommit != "local"
	switch {
	case d.Standbys == 0 && waits:
		return Finding{
			Name: name, Found: "synchronous_standby_names is set and no standby is attached, so no commit ends",
			Fix: "start the standby, or empty synchronous_standby_names", Warning: true,
		}
	case d.Standbys == 0:
		return Finding{Name: name, Found: "none attached"}
	case waits:
		return Finding{Name: name, Found: fmt.Sprintf("%d attached; commits wait for %s", d.Standbys, d.SynchronousStandbyNames)}
	default:
		return Finding{
			Name: name, Found: fmt.Sprintf("%d attached, all asynchronous: a failover loses changes that were answered just before", d.Standbys),
			Fix: "name one in synchronous_standby_names, or accept the loss: docs/operations.md, \"Failover\"", Warning: true,
		}
	}
}

// doctorPooler checks that the connection is one session of the server.
func doctorPooler(ctx context.Context, db *postgres.DB, setting, name string) Finding {
	found, err := db.Pooler(ctx)
	switch {
	case err != nil:
		return Finding{Name: name, Found: oneLine(err), Fix: "start PostgreSQL"}
	case found.Drops:
		return Finding{
			Name: name, Found: "the connection does not keep the settings of a session, as through a pooler in transaction mode",
			Fix: "have " + setting + " lead to PostgreSQL itself: docs/operations.md, \"Poolers\"",
		}
	case found.Between:
		return Finding{
			Name: name, Found: "the connection goes through a pooler, which must be in session mode",
			Fix: "better have " + setting + " lead to PostgreSQL itself: docs/operations.md, \"Poolers\"", Warning: true,
		}
	default:
		return Finding{Name: name, Found: "none between this process and PostgreSQL"}
	}
}
