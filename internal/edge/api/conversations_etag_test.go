package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

func TestConversations_ETag_NotModified(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	empty := n.Get(t, n.path+"/conversations")
	n.s.Conversation(t, n.Org, n.account)
	first := n.Get(t, n.path+"/conversations")
	tag := first.Header.Get("ETag")
	require.Regexp(t, `^W/"[A-Za-z0-9_-]{24}"$`, tag)
	require.NotEqual(t, empty.Header.Get("ETag"), tag)
	strong := tag[2:]
	for _, known := range []string{tag, strong, `"x", ` + tag, strong + `,W/"y"`, "*"} {
		answer := n.Get(t, n.path+"/conversations", "If-None-Match", known)
		require.Equal(t, http.StatusNotModified, answer.Status, known)
		require.Equal(t, tag, answer.Header.Get("ETag"))
	}
	for _, other := range []string{"", `"x"`, strong[1 : len(strong)-1], empty.Header.Get("ETag"), tag + "x"} {
		require.Equal(t, http.StatusOK, n.Get(t, n.path+"/conversations", "If-None-Match", other).Status, other)
	}
	require.Equal(t, http.StatusOK, n.Get(t, n.path+"/conversations?status=resolved", "If-None-Match", tag).Status)
	require.Equal(t, http.StatusBadRequest, n.Get(t, n.path+"/conversations?limit=0", "If-None-Match", tag).Status)
}

// inbox is a number with conversations that a property test changes at random.
type inbox struct {
	number

	customer customers.Customer
	contacts []contacts.ID
	threads  []string
	labels   []string
	users    []orgs.User
	serial   int
}

func newInbox(t *testing.T, s *apitest.Server) *inbox {
	t.Helper()
	client := s.Client(t)
	d := &inbox{customer: s.Customer(t, client.Org)}
	account := s.AccountOf(t, client.Org, &d.customer.ID)
	d.number = number{Client: client, s: s, account: account, path: "/" + *account.PhoneNumberID}
	for i := range 4 {
		made := s.Conversation(t, client.Org, account)
		d.contacts, d.threads = append(d.contacts, made.ContactID), append(d.threads, made.ID.String())
		d.labels = append(d.labels, s.Label(t, client.Org).ID.String())
		d.users = append(d.users, d.user(t, fmt.Sprintf("User %d", i), fmt.Sprintf("u%d@example.com", i)))
		s.Clock.Move(time.Second)
	}
	return d
}

// edit makes one of the changes that a page may show, or one that no page shows.
func (d *inbox) edit(t *testing.T, r *rapid.T) {
	t.Helper()
	d.serial++
	pick := func(from []string) string { return rapid.SampledFrom(from).Draw(r, "which") }
	do := func(method, path string, body any) { d.Do(t, method, path, body) }
	word := fmt.Sprintf("Name %d", rapid.IntRange(0, 2).Draw(r, "word"))
	switch rapid.SampledFrom([]string{
		"contact", "email", "label", "color", "user", "customer", "attach", "detach", "status", "assign", "message", "sent", "read", "new", "nothing",
	}).Draw(r, "edit") {
	case "contact":
		do("PATCH", d.path+"/contacts/"+rapid.SampledFrom(d.contacts).Draw(r, "which").String(), map[string]any{"name": word})
	case "email":
		do("PATCH", d.path+"/contacts/"+rapid.SampledFrom(d.contacts).Draw(r, "which").String(), map[string]any{"email": fmt.Sprintf("e%d@x.example", d.serial)})
	case "label":
		do("PATCH", "/labels/"+pick(d.labels), map[string]any{"name": fmt.Sprintf("%s %d", word, d.serial)})
	case "color":
		do("PATCH", "/labels/"+pick(d.labels), map[string]any{"color": rapid.SampledFrom([]string{"red", "gray"}).Draw(r, "color")})
	case "user":
		user := rapid.SampledFrom(d.users).Draw(r, "which")
		_, err := postgres.InTx(t.Context(), d.s.DB, d.Org, func(tx *postgres.Tx) (int64, error) {
			return tx.Exec(t.Context(), `UPDATE users SET name = @name WHERE org_id = @org_id AND id = @id`, postgres.Args{"name": word, "id": user.ID})
		})
		require.NoError(t, err)
	case "customer":
		_, err := d.s.Customers.Update(t.Context(), d.Org, d.customer.ID, customers.Patch{Name: patch.To(word)})
		require.NoError(t, err)
	case "attach":
		do("POST", d.path+"/conversations/"+pick(d.threads)+"/labels", map[string]any{"label_id": pick(d.labels)})
	case "detach":
		do("DELETE", d.path+"/conversations/"+pick(d.threads)+"/labels/"+pick(d.labels), nil)
	case "status":
		do("PATCH", d.path+"/conversations/"+pick(d.threads), map[string]any{"status": pick([]string{"open", "pending", "resolved"})})
	case "assign":
		do("PATCH", d.path+"/conversations/"+pick(d.threads), map[string]any{"assigned_to": rapid.SampledFrom(d.users).Draw(r, "which").ID})
	case "message":
		d.received(t, rapid.SampledFrom(d.contacts).Draw(r, "which"), d.s.Clock.Now())
	case "sent":
		d.sent(t, rapid.SampledFrom(d.contacts).Draw(r, "which"), d.s.Clock.Now())
	case "read":
		d.number.read(t, pick(d.threads))
	case "new":
		d.s.Conversation(t, d.Org, d.account)
	}
}

var unshown = regexp.MustCompile(`"(request_id|next_cursor)":("[^"]*"|null)`)

// TestConversations_ETagAfterRandomEdits_304IffPageIsTheSame makes random edits. A page must answer 304
// if, and only if, its content is the same as before.
func TestConversations_ETagAfterRandomEdits_304IffPageIsTheSame(t *testing.T) {
	t.Parallel()
	d := newInbox(t, apitest.New(t))
	queries := []string{"", "?limit=2", "?status=open", "?unread=true&limit=3", "?label_id=" + d.labels[0], "?updated_since=2020-01-01T00:00:00Z"}
	type page struct{ tag, shown string }
	pages := map[string]page{}
	fetch := func(query string) page {
		answer := d.Get(t, d.path+"/conversations"+query)
		return page{tag: answer.Header.Get("ETag"), shown: unshown.ReplaceAllString(string(answer.Body), "")}
	}
	for _, query := range queries {
		pages[query] = fetch(query)
	}
	same, other := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		d.edit(t, r)
		if rapid.Bool().Draw(r, "later") {
			d.s.Clock.Move(time.Millisecond)
		}
		query := rapid.SampledFrom(queries).Draw(r, "page")
		before := pages[query]
		asked := d.Get(t, d.path+"/conversations"+query, "If-None-Match", before.tag)
		now := fetch(query)
		require.Equal(r, before.shown == now.shown, asked.Status == http.StatusNotModified)
		require.Equal(r, before.shown == now.shown, before.tag == now.tag)
		if pages[query] = now; asked.Status == http.StatusNotModified {
			same++
		} else {
			other++
		}
	})
	t.Logf("%d times not modified, %d times modified", same, other)
	require.Positive(t, same)
	require.Positive(t, other)
}

func (n number) sent(t *testing.T, contact contacts.ID, at time.Time) {
	t.Helper()
	require.NoError(t, n.trySend(t, contact, at))
}

// TestConversations_WalkDuringWrites_UnchangedOnce reads the list page by page while other clients
// write. Each conversation that did not change must be on exactly one page, in order.
func TestConversations_WalkDuringWrites_UnchangedOnce(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	start, quiet, busy := n.s.Clock.Now(), []string{}, []contacts.ID{}
	for i := range 60 {
		contact := n.s.Contact(t, n.Org, n.account)
		switch {
		case i%3 == 0:
			busy = append(busy, contact.ID)
			n.received(t, contact.ID, start.Add(time.Duration(i)*time.Second))
		default:
			quiet = append(quiet, n.received(t, contact.ID, start.Add(time.Duration(i/6)*time.Second)).ID.String()) // many ties
		}
	}
	for range 5 {
		quiet = append(quiet, n.emptyConversation(t))
	}
	want := slices.DeleteFunc(walk(t, n.Client, n.path+"/conversations?limit=100"), func(id string) bool { return !slices.Contains(quiet, id) })
	require.Len(t, want, len(quiet))
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			at := start.Add(time.Duration(100+i) * time.Second)
			if err := n.trySend(t, busy[i%len(busy)], at); err != nil {
				t.Errorf("%v", err)
				return
			}
		}
	})
	for _, limit := range []int{3, 7, 20} {
		seen := walk(t, n.Client, fmt.Sprintf("%s/conversations?limit=%d", n.path, limit))
		seen = slices.DeleteFunc(seen, func(id string) bool { return !slices.Contains(quiet, id) })
		require.Equal(t, want, seen, "pages of %d", limit)
	}
	close(stop)
	group.Wait()
}

// TestContacts_WalkDuringWrites_UnchangedOnce is the same for contacts, some of which are created,
// updated and deleted meanwhile.
func TestContacts_WalkDuringWrites_UnchangedOnce(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	quiet, busy := []string{}, []contacts.ID{}
	for i := range 45 {
		contact := n.s.Contact(t, n.Org, n.account)
		if i%3 == 0 {
			busy = append(busy, contact.ID)
		} else {
			quiet = append([]string{contact.ID.String()}, quiet...)
		}
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			var err error
			id := busy[i%len(busy)]
			if i >= len(busy) && i < len(busy)+5 {
				_, err = n.s.Contacts.Delete(t.Context(), n.Org, n.account, id)
				busy[i%len(busy)] = n.s.Contact(t, n.Org, n.account).ID
			} else {
				_, err = n.s.Contacts.Update(t.Context(), n.Org, n.account, id, contacts.Patch{Name: patch.To(fmt.Sprintf("Contact %d", i))})
			}
			if err != nil {
				t.Errorf("%v", err)
				return
			}
		}
	})
	for _, query := range []string{"limit=3", "limit=7", "limit=4&q=contact", "limit=4&updated_since=2020-01-01T00:00:00Z"} {
		seen := walk(t, n.Client, n.path+"/contacts?"+query)
		seen = slices.DeleteFunc(seen, func(id string) bool { return !slices.Contains(quiet, id) })
		require.Equal(t, quiet, seen, query)
	}
	close(stop)
	group.Wait()
}
