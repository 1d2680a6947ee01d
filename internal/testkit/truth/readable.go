package truth

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/oklog/ulid/v2"
)

// owned is a row of an organization; id is printed as a UUID.
type owned struct{ org, id string }

// checkReadable checks that everything that a response says was created is a row of its
// organization.
func (c *checker) checkReadable() {
	for _, call := range c.Calls {
		if call.Mark == "" || call.Status != http.StatusCreated && call.Status != http.StatusAccepted {
			continue
		}
		name := call.created()
		id, ok := rowID(name)
		if !ok {
			c.violated(Readable, "the change %s of %s was acknowledged with the id %q", call.Mark, call.Org, name)
		} else if !c.stored[owned{call.Org, id}] {
			c.violated(Readable, "%s of %s was acknowledged and is no row", name, call.Org)
		}
	}
}

// created is the id in a response; empty if it has none.
func (c Call) created() string {
	var wrapped struct{ Data struct{ ID string } }
	var plain struct{ ID string }
	_ = json.Unmarshal(c.Body, &wrapped) // a response that is no JSON has no id
	if wrapped.Data.ID != "" {
		return wrapped.Data.ID
	}
	_ = json.Unmarshal(c.Body, &plain)
	return plain.ID
}

// rowID is a public id as it is stored.
func rowID(name string) (string, bool) {
	parsed, err := ulid.ParseStrict(name[strings.LastIndex(name, "_")+1:])
	return pgtype.UUID{Bytes: parsed, Valid: true}.String(), err == nil
}
