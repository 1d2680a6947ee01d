package api_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/generate"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

const (
	// perOrg is how many requests an organization gets before the next one is made, so that lists stay short and what the
	// requests deleted is there again.
	perOrg = 244
	// mostFailures is how many failures are printed.
	mostFailures = 20
)

// TestContract_GeneratedRequests_AnsweredAsDocumented sends requests that are made from the contract, valid and broken, to
// every operation. Each answer must be documented: its status, headers, fields and code. None may be a 5xx, and a body that
// the contract refuses must not be accepted. PARLEY_CONTRACT_REQUESTS is how many requests (3,000; 61,000 in the proof), and
// PARLEY_CONTRACT_SEED chooses others.
func TestContract_GeneratedRequests_AnsweredAsDocumented(t *testing.T) {
	t.Parallel()
	f := &generatedFixture{
		s: apitest.New(t), seed: uint64(setting("PARLEY_CONTRACT_SEED", 1)),
		sent: map[string]int{}, taken: map[string]int{}, classes: map[string]int{}, kinds: map[string]int{}, codes: map[string]int{},
	}
	total := setting("PARLEY_CONTRACT_REQUESTS", proof.Sized(3_000, 61_000))
	for round := 0; f.total < total && len(f.failures) < mostFailures; round++ {
		f.round(t, round, min(perOrg, total-f.total))
	}
	f.report(t)
	if count := len(f.failures); count > 0 { // report has printed them
		t.Fatalf("%d failures in %d requests; to repeat: PARLEY_CONTRACT_SEED=%d", count, f.total, f.seed)
	}
	for _, operation := range f.s.Contract.Operations() {
		require.Positive(t, f.taken[operation.ID], "none of %d requests to %s succeeded", f.sent[operation.ID], operation.ID)
	}
}

func setting(name string, otherwise int) int {
	if value, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return value
	}
	return otherwise
}

type generatedFixture struct {
	s     *apitest.Server
	seed  uint64
	total int
	// sent and taken count requests and their successes by operation, classes by class of status, kinds by fault and
	// class, codes by error code.
	sent, taken, classes, kinds, codes map[string]int
	failures                           []string
}

// round sends requests of a new organization.
func (f *generatedFixture) round(t *testing.T, round, requests int) {
	t.Helper()
	client := f.s.Client(t)
	seed := f.seed*1_000_003 + uint64(round)
	generator, err := generate.New(f.s.Contract, seed, client.Key())
	require.NoError(t, err)
	f.introduce(t, client, generator)
	f.trouble(t, client, round)
	operations := f.s.Contract.Operations()
	for _, operation := range f.s.Contract.Operations() {
		if operation.Body != nil { // more can be wrong with them
			operations = append(operations, operation, operation)
		}
	}
	random := rand.New(rand.NewPCG(seed, 1))
	random.Shuffle(len(operations), func(i, j int) { operations[i], operations[j] = operations[j], operations[i] })
	for i := range requests {
		f.try(t, client, generator.Next(operations[i%len(operations)]))
	}
}

// introduce makes what an organization can have, and tells the generator the ids.
func (f *generatedFixture) introduce(t *testing.T, client *apitest.Client, generator *generate.Generator) {
	t.Helper()
	mine := owned(t, client)
	number := mine["{phone_number_id}"]
	account := ownAccount(t, client)
	client.World.Network.Number(t, account.BusinessAccountID, number, map[string]any{"display_phone_number": *account.PhoneNumber})
	for schema, id := range map[string]string{
		"LabelId": mine["{label_id}"], "CustomerId": mine["/customers/{id}"], "MediaId": mine["/media/{id}"],
		"WebhookSubscriptionId": mine["/webhook_subscriptions/{id}"], "WebhookDeliveryId": mine["/webhook_deliveries/{id}"],
		"SigningSecretId": mine["{secret_id}"], "SetupLinkId": mine["{link_id}"], "ContactId": mine["/{phone_number_id}/contacts/{id}"],
		"ConversationId": mine["/{phone_number_id}/conversations/{id}"], "MessageId": mine["/{phone_number_id}/messages/{id}"],
	} {
		prefix, _, _ := strings.Cut(id, "_")
		generator.Know(schema, id)
		generator.Know(prefix+"_", id)
	}
	var customer customers.ID
	require.NoError(t, customer.UnmarshalText([]byte(mine["/customers/{id}"])))
	generator.Know("PhoneNumberId", number, number, number, *client.World.AccountOf(t, client.Org, &customer).PhoneNumberID)
	sent := client.Post(t, "/"+number+"/messages", message("image", `{"link":"https://harbour.example/menu.jpg"}`))
	require.Equal(t, 202, sent.Status, "%s", sent.Body)
	generator.Know("MessageId", sent.Data(t)["id"].(string))
	made := client.Post(t, "/"+number+"/templates", strings.Replace(orderReady, "order_done", "order_ready", 1))
	require.Equal(t, 201, made.Status, "%s", made.Body)
	review(t, client, "/"+number+"/templates/order_ready", "APPROVED")
	require.Equal(t, 200, client.Post(t, "/"+number+"/templates/sync", nil).Status)
	generator.Know("team_id", client.Team.String())
	generator.Know("to", "+351910000001", "+351910000002")
	generator.Know("{name}", "order_ready", "order_ready", "order_ready", "sync")
}

// trouble gives some organizations a state in which requests are refused.
func (f *generatedFixture) trouble(t *testing.T, client *apitest.Client, round int) {
	t.Helper()
	n := number{Client: client, s: f.s, account: ownAccount(t, client)}
	switch round % 12 {
	case 5:
		n.set(t, orgs.Change{Plan: new("growth")}) // has no customers
	case 9:
		n.set(t, orgs.Change{Subscription: new(orgs.Inactive)})
	case 10:
		n.accountBecomes(t, "status", "degraded")
	case 11:
		_, err := f.s.Orgs.Suspend(t.Context(), client.Org, audit.Operator())
		require.NoError(t, err)
	}
}

// try sends a request and judges its answer.
func (f *generatedFixture) try(t *testing.T, client *apitest.Client, made generate.Request) {
	t.Helper()
	f.s.Clock.Move(4 * time.Millisecond) // refills the bucket
	request, err := http.NewRequestWithContext(t.Context(), made.Method, f.s.URL+"/v1"+made.Target, bytes.NewReader(made.Body))
	require.NoError(t, err, "%+v", made)
	request.Header = made.Header
	answer, err := client.Try(request)
	if err == nil {
		err = f.s.Check(made.Method, request.URL.EscapedPath(), answer)
	}
	if err == nil && answer.Status >= 500 {
		err = fmt.Errorf("answered %d: %s", answer.Status, answer.Body)
	}
	if wrong := refusable(made); err == nil && wrong != nil && answer.Status < 300 {
		err = fmt.Errorf("answered %d to a body that the contract refuses: %w", answer.Status, wrong)
	}
	class := fmt.Sprintf("%dxx", answer.Status/100)
	f.total++
	f.sent[made.Operation.ID]++
	if answer.Status < 400 && made.Method == made.Operation.Method {
		f.taken[made.Operation.ID]++
	}
	f.classes[class]++
	if code := answer.Code(); code != "" {
		f.codes[code]++
	}
	f.kinds[fmt.Sprintf("%-40s %s", made.Fault, class)]++
	if err != nil {
		f.failures = append(f.failures, fmt.Sprintf("%s, %q: %v\n%.4000s", made.Operation.ID, made.Fault, err, made.Curl(f.s.URL+"/v1")))
	}
}

// refusable returns why the contract refuses the body, or nil if it does not.
func refusable(made generate.Request) error {
	operation := made.Operation
	// validateMessage answers 200 and what is wrong with the body.
	if operation.Body == nil || operation.ID == "validateMessage" || made.Method != operation.Method || made.Body == nil {
		return nil
	}
	if len(made.Body) == 0 && !operation.BodyRequired {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(made.Body))
	if err != nil {
		return err
	}
	if made.Method == http.MethodPost { // null means there that the field is not given
		withoutNulls(value)
	}
	return operation.Body.Validate(value)
}

func withoutNulls(value any) {
	if members, is := value.(map[string]any); is {
		maps.DeleteFunc(members, func(_ string, member any) bool { return member == nil })
		for _, member := range members {
			withoutNulls(member)
		}
	}
	if items, is := value.([]any); is {
		for _, item := range items {
			withoutNulls(item)
		}
	}
}

func (f *generatedFixture) report(t *testing.T) {
	t.Helper()
	lines := []string{fmt.Sprintf("%d requests over %d operations, seed %d", f.total, len(f.sent), f.seed)}
	for _, counts := range []map[string]int{f.classes, f.codes, f.kinds} {
		lines = append(lines, "")
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			lines = append(lines, fmt.Sprintf("%7d %s", counts[name], name))
		}
	}
	lines = append(lines, "", "requests, of them successful, by operation")
	for _, name := range slices.Sorted(maps.Keys(f.sent)) {
		lines = append(lines, fmt.Sprintf("%7d %7d %s", f.sent[name], f.taken[name], name))
	}
	t.Log(strings.Join(lines, "\n"))
	for _, failure := range f.failures {
		t.Log(failure)
	}
}
