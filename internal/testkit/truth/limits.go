package truth

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/orgs"
)

type quotaMonth struct {
	OrgID   orgs.ID
	Month   time.Time
	Limit   int64
	Used    int64
	Allowed int64
	// PerSecond and Burst are the plan's limit of requests.
	PerSecond int
	Burst     int
}

const sqlQuotas = `
SELECT o.org_id, coalesce(u.month, '0001-01-01'::date) AS month, p.messages_per_month AS "limit", coalesce(u.used, 0) AS used,
       coalesce(u.allowed, 0) AS allowed, p.rate_per_second AS per_second, p.rate_burst AS burst
FROM organizations o
JOIN plans p ON p.name = o.plan
LEFT JOIN quota_usage u ON u.org_id = o.org_id
ORDER BY o.org_id, u.month`

func (c *checker) readQuotas(ctx context.Context, db database) error {
	all, err := rowsOf[quotaMonth](ctx, db, sqlQuotas)
	c.ledger.quotas = append(c.ledger.quotas, all...)
	return err
}

// checkQuotas checks that no organization sent more messages than its plan allows. A process that
// was killed may forget 0.5 % of the limit that it counted in memory.
func (c *checker) checkQuotas() {
	type key struct {
		org   orgs.ID
		month time.Time
	}
	accepted := map[key]int64{}
	for _, one := range c.ledger.messages {
		at := one.ID.CreatedAt()
		accepted[key{one.OrgID, time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)}]++
	}
	for _, one := range c.ledger.quotas {
		at := key{one.OrgID, one.Month.UTC()}
		count, forgotten := accepted[at], int64(c.Kills)*(one.Limit/200)
		delete(accepted, at)
		if count > one.Limit+forgotten {
			c.violated(Limits, "%s sent %d messages; its plan allows %d, and %d kills hide at most %d", one.OrgID, count, one.Limit, c.Kills, forgotten)
		}
		if one.Used > one.Limit {
			c.violated(Limits, "%s used %d messages; its plan allows %d", one.OrgID, one.Used, one.Limit)
		}
		if count > one.Used+one.Allowed+forgotten {
			c.violated(Limits, "%s sent %d messages, but only %d are counted, and %d at most are in memory or lost by %d kills",
				one.OrgID, count, one.Used, one.Allowed+forgotten, c.Kills)
		}
	}
	for of, count := range accepted {
		c.violated(Limits, "%s sent %d messages in %s, and none is counted", of.org, count, of.month.Format("2006-01"))
	}
}

const (
	// rateWindow is the time over which rates are checked.
	rateWindow = 10 * time.Second
	// underWay is how many calls of a number may be under way. They may arrive together after a pause.
	underWay = 128
)

// paceOf is how many messages a second the provider takes from a number.
func (m *message) paceOf() int {
	switch {
	case m.Coexistence:
		return 20
	case m.Throughput != nil && *m.Throughput == "HIGH":
		return 1000
	default:
		return 80
	}
}

// checkPaces checks that no number sent faster than the provider allows.
func (c *checker) checkPaces() {
	times, paces := map[string][]time.Time{}, map[string]int{}
	for id, sends := range c.ledger.sends {
		for _, send := range sends {
			times[send.NumberID] = append(times[send.NumberID], send.At)
			if one := c.ledger.messages[id]; one != nil {
				paces[send.NumberID] = one.paceOf()
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(times)) {
		pace := paces[number]
		if most := busiest(times[number]); pace > 0 && most > pace*int(rateWindow/time.Second)+pace+underWay {
			c.violated(Limits, "the number %s sent %d messages in %s; the provider takes %d a second", number, most, rateWindow, pace)
		}
	}
}

// busiest is the largest number of times within a rateWindow.
func busiest(times []time.Time) (most int) {
	slices.SortFunc(times, time.Time.Compare)
	first := 0
	for last := range times {
		for times[last].Sub(times[first]) >= rateWindow {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

type request struct {
	OrgID orgs.ID
	ID    apilogs.RequestID
}

func (c *checker) readRequests(ctx context.Context, db database) error {
	all, err := rowsOf[request](ctx, db, `SELECT org_id, id FROM api_log WHERE status NOT IN (429, 503)`)
	for _, one := range all {
		org := one.OrgID.String()
		c.ledger.requests[org] = append(c.ledger.requests[org], one.ID.CreatedAt())
	}
	return err
}

// checkRequestRates checks that no organization made more requests than its plan allows.
func (c *checker) checkRequestRates() {
	checked := map[string]bool{}
	for _, one := range c.ledger.quotas {
		org := one.OrgID.String()
		if checked[org] {
			continue
		}
		checked[org] = true
		if most := busiest(c.ledger.requests[org]); most > one.PerSecond*int(rateWindow/time.Second)+one.Burst {
			c.violated(Limits, "%s made %d requests in %s; its plan allows %d a second and %d at once", org, most, rateWindow, one.PerSecond, one.Burst)
		}
	}
}
