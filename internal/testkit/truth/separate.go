package truth

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// needle is a text that must not be found, or only in data of its owner.
type needle struct {
	text []byte
	// name describes the needle without showing it.
	name string
	org  string
}

func (c *checker) secretNeedles() (all []needle) {
	for i, key := range c.Keys {
		all = append(all, needle{text: []byte(key), name: fmt.Sprintf("API key %d, ending in %s", i+1, key[max(0, len(key)-4):])})
	}
	for _, subscription := range c.Subscriptions {
		for i, secret := range subscription.Secrets {
			all = append(all, needle{text: []byte(secret.Text), name: fmt.Sprintf("signing secret %d of %s", i+1, subscription.ID)})
		}
	}
	return all
}

func (c *checker) canaryNeedles() (all []needle) {
	for _, org := range slices.Sorted(maps.Keys(c.Canaries)) {
		for _, canary := range c.Canaries[org] {
			all = append(all, needle{text: []byte(canary), name: fmt.Sprintf("%q", canary), org: org})
		}
	}
	return all
}

// scan searches every row of a cell for canaries of other organizations, for secrets, and for
// changes that happened twice.
func (c *checker) scan(ctx context.Context, db database, cell string) error {
	marks := map[string]map[string]int{}
	err := pgtest.EachRow(ctx, db.conn, func(row pgtest.Row) {
		if marks[row.Table] == nil {
			marks[row.Table] = map[string]int{}
			c.found.Tables++
		}
		c.found.Rows++
		c.stored[owned{row.Org, row.ID}] = true
		c.scanRow(cell, row, marks[row.Table])
	})
	for _, table := range slices.Sorted(maps.Keys(marks)) {
		for _, mark := range slices.Sorted(maps.Keys(marks[table])) {
			if times := marks[table][mark]; times > 1 {
				c.violated(Once, "the change %s stands in %d rows of %s in the cell %s", mark, times, table, cell)
			}
		}
	}
	return err
}

func (c *checker) scanRow(cell string, row pgtest.Row, marks map[string]int) {
	for _, mark := range marksIn(row.Text) {
		marks[mark]++
	}
	for _, one := range c.canaries {
		if row.Org != one.org && bytes.Contains(row.Text, one.text) {
			c.violated(Separate, "the canary %s of %s stands in %s of %s, in the cell %s",
				one.name, one.org, row.Table, orNobody(row.Org), cell)
		}
	}
	for _, secret := range c.secretsIn(row.Text) {
		c.violated(Secrecy, "%s stands in %s of %s, in the cell %s", secret, row.Table, orNobody(row.Org), cell)
	}
}

// secretsIn names the secrets in a text: those of the run, and those of package canary.
func (c *checker) secretsIn(text []byte) (names []string) {
	for _, secret := range c.secrets {
		if bytes.Contains(text, secret.text) {
			names = append(names, secret.name)
		}
	}
	for _, kind := range canary.Find(text) {
		names = append(names, string(kind))
	}
	return names
}

func orNobody(org string) string {
	if org == "" {
		return "no organization"
	}
	return org
}

// checkSeparate checks that the responses and webhooks of an organization contain no canary of
// another, and no secret.
func (c *checker) checkSeparate() {
	for _, call := range c.Calls {
		for _, one := range c.canaries {
			if call.Org != one.org && bytes.Contains(call.Body, one.text) {
				c.violated(Separate, "the canary %s of %s was answered to %s, key %q, %s", one.name, one.org, call.Org, call.Key, call.Mark)
			}
		}
		for _, kind := range canary.Find(call.Body) {
			c.violated(Secrecy, "%s was answered to %s, key %q, %s", kind, call.Org, call.Key, call.Mark)
		}
	}
	for _, request := range c.Requests {
		to, known := c.byPath[request.Path]
		if !known {
			continue
		}
		text := headersAndBody(request.Header, request.Body)
		for _, one := range c.canaries {
			if to.Org != one.org && bytes.Contains(text, one.text) {
				c.violated(Separate, "the canary %s of %s arrived at %s of %s in %s", one.name, one.org, to.ID, to.Org, request.DeliveryID())
			}
		}
		for _, secret := range c.secretsIn(text) {
			c.violated(Secrecy, "%s arrived at %s in %s", secret, to.ID, request.DeliveryID())
		}
	}
}

func headersAndBody(header map[string][]string, body []byte) []byte {
	text := bytes.Clone(body)
	for name, values := range header {
		for _, value := range values {
			text = append(text, "\x00"+name+"\x00"+value...)
		}
	}
	return text
}

// checkLogs checks that no log contains a secret.
func (c *checker) checkLogs() error {
	for _, file := range c.Logs {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for at, line := range bytes.Split(text, []byte("\n")) {
			for _, secret := range c.secretsIn(line) {
				c.violated(Secrecy, "%s stands in line %d of %s", secret, at+1, file)
			}
		}
	}
	return nil
}
