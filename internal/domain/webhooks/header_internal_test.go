package webhooks

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/signature"
)

// The sender may have read the secrets a while before it signs.
func TestHeader_SignedByTheSecretsThatAreActiveNow(t *testing.T) {
	t.Parallel()
	soon := noon.Add(time.Minute)
	p := &outgoing{
		ID: ids.New[deliveryKind](noon), AttemptCount: 2, EventKey: "key", EventType: events.CustomerCreated, Body: []byte(`{"a":1}`),
		secrets: []Secret{{Plaintext: "first", ExpiresAt: &soon}, {Plaintext: "second"}, {Plaintext: "third", ExpiresAt: &soon}},
	}
	for at, secrets := range map[time.Time][]string{
		noon: {"first", "second", "third"}, soon.Add(-time.Millisecond): {"first", "second", "third"}, soon: {"second"},
	} {
		header := p.header(at)
		require.Equal(t, signature.Sign(at, p.Body, secrets...), header.Get(signature.Header))
		require.Equal(t, len(secrets), strings.Count(header.Get(signature.Header), "v1="))
		require.Equal(t, signature.Sign256(p.Body, secrets[len(secrets)-1]), header.Get(signature.Header256), "the newest that is active")
		require.Equal(t, "3", header.Get("X-Svc-Attempt"))
	}
	for _, of := range events.Catalogue() {
		p.EventType = of
		header := p.header(noon)
		require.Equal(t, strings.HasPrefix(string(of), "customer."), header.Get(signature.Header256) != "", of)
		want := "svc"
		if of == "message.received" || of == "message.status" {
			want = "provider"
		}
		require.Equal(t, want, header.Get("X-Svc-Source"), of)
		require.Equal(t, string(of), header.Get("X-Svc-Event"))
	}
}
