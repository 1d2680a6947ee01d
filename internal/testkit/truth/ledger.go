package truth

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// Send is an entry of the provider's log: a message that it took.
type Send struct {
	// ID is the provider's id of the message, NumberID the number that sent it.
	ID, NumberID string
	// Reference is what the call said in biz_opaque_callback_data.
	Reference string
	At        time.Time
	// Silent says that no callback about it is ever posted.
	Silent bool
}

// attempt splits a reference into the message and the number of the attempt; 0 if it is not ours.
func (s Send) attempt() (message string, number int) {
	message, count, _ := strings.Cut(s.Reference, ":")
	number, _ = strconv.Atoi(count)
	return message, number
}

// ledger is what the cells know about messages.
type ledger struct {
	// messages are by id, sends by the id of their message, attempts and callbacks by reference.
	messages map[string]*message
	sends    map[string][]Send
	attempts map[string]attempt
	// callbacks has the time at which the first callback of an attempt was stored.
	callbacks map[string]time.Time
	// failed has the marks of messages that were acknowledged and failed.
	failed map[string]bool
	// contacts are those to whom messages were sent.
	contacts map[ids.Any]bool
	// received are the messages of people by the provider's ids, wrote the contacts that wrote them.
	received map[string]ids.Any
	wrote    map[ids.Any]bool
	quotas   []quotaMonth
	// requests are the times of the requests that were not refused, by organization.
	requests map[string][]time.Time
}

func newLedger() ledger {
	return ledger{
		messages: map[string]*message{}, sends: map[string][]Send{}, attempts: map[string]attempt{},
		callbacks: map[string]time.Time{}, failed: map[string]bool{}, contacts: map[ids.Any]bool{},
		requests: map[string][]time.Time{}, received: map[string]ids.Any{}, wrote: map[ids.Any]bool{},
	}
}

// message is an outbound message with its state.
type message struct {
	OrgID            orgs.ID
	ID               messages.ID
	ContactID        ids.Any
	NumberID         *string
	Throughput       *string
	Coexistence      bool
	Status           string
	Synthesized      bool
	ProviderID       *string
	SecondProviderID *string
	// Attempt is the number of the last attempt; Open says that its result is not known.
	Attempt int
	Open    bool
	Resent  bool
}

const sqlMessages = `
SELECT m.org_id, m.id, m.contact_id, a.phone_number_id AS number_id, a.throughput, coalesce(a.coexistence, false) AS coexistence,
       st.status, st.synthesized, st.provider_id, st.second_provider_id, st.attempt, st.begun_at IS NOT NULL AS open, st.resent
FROM messages m
JOIN message_states st USING (org_id, id)
LEFT JOIN accounts a ON a.org_id = m.org_id AND a.id = m.account_id
WHERE m.direction = 'outbound' AND m.source IN ('api', 'broadcast')`

func (c *checker) readMessages(ctx context.Context, db database) error {
	all, err := rowsOf[message](ctx, db, sqlMessages)
	for i := range all {
		c.ledger.messages[all[i].ID.String()] = &all[i]
		c.ledger.contacts[all[i].ContactID] = true
	}
	return err
}

// received is a message of a person.
type received struct {
	ID         ids.Any
	ContactID  ids.Any
	ProviderID string
}

func (c *checker) readReceived(ctx context.Context, db database) error {
	all, err := rowsOf[received](ctx, db, `
SELECT m.id, m.contact_id, p.provider_id
FROM messages m
JOIN provider_messages p ON p.org_id = m.org_id AND p.message_id = m.id
WHERE m.direction = 'inbound'`)
	for _, one := range all {
		c.ledger.received[one.ProviderID], c.ledger.wrote[one.ContactID] = one.ID, true
	}
	return err
}

// attempt is one that did not succeed, or whose result is not known.
type attempt struct {
	MessageID messages.ID
	Attempt   int
	BegunAt   time.Time
	Outcome   string
}

func (c *checker) readAttempts(ctx context.Context, db database) error {
	all, err := rowsOf[attempt](ctx, db, `SELECT message_id, attempt, begun_at, outcome FROM send_attempts`)
	for _, one := range all {
		c.ledger.attempts[reference(one.MessageID.String(), one.Attempt)] = one
	}
	return err
}

func reference(message string, attempt int) string { return message + ":" + strconv.Itoa(attempt) }

type storedCallback struct {
	ID   callbacks.ID
	Body []byte
}

var references = regexp.MustCompile(`msg_[0-9A-Z]{26}:[0-9]+`)

func (c *checker) readCallbacks(ctx context.Context, db database) error {
	all, err := rowsOf[storedCallback](ctx, db, `SELECT id, body FROM callbacks ORDER BY id DESC`)
	for _, one := range all {
		for _, of := range references.FindAll(one.Body, -1) {
			c.ledger.callbacks[string(of)] = one.ID.CreatedAt() // the oldest comes last
		}
	}
	return err
}
