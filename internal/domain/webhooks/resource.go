package webhooks

import (
	"encoding/json"
	"fmt"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// Resource is the JSON of a subscription.
type Resource struct {
	ID                  SubscriptionID  `json:"id"`
	Object              string          `json:"object"`
	URL                 string          `json:"url"`
	Description         *string         `json:"description"`
	Events              []events.Type   `json:"events"`
	Status              Status          `json:"status"`
	DisabledReason      *string         `json:"disabled_reason"`
	ConsecutiveFailures int             `json:"consecutive_failures"`
	Secrets             []SecretSummary `json:"secrets"`
	PhoneNumberIDs      []string        `json:"phone_number_ids,omitempty"`
	CreatedAt           clock.Stamp     `json:"created_at"`
	UpdatedAt           clock.Stamp     `json:"updated_at"`
	InitialSecret       string          `json:"initial_secret,omitempty"`
}

// SecretSummary names a secret without showing it.
type SecretSummary struct {
	ID        SecretID     `json:"id"`
	CreatedAt clock.Stamp  `json:"created_at"`
	ExpiresAt *clock.Stamp `json:"expires_at"`
}

// Resource prints the subscription with its active secrets.
func (s Subscription) Resource() Resource {
	secrets := make([]SecretSummary, len(s.Secrets))
	for i, secret := range s.Secrets {
		secrets[i] = SecretSummary{
			ID: secret.ID, CreatedAt: clock.Stamp(secret.ID.CreatedAt()), ExpiresAt: clock.StampOrNil(secret.ExpiresAt),
		}
	}
	return Resource{
		ID: s.ID, Object: "webhook_subscription", URL: s.URL, Description: s.Description, Events: s.Events,
		Status: s.Status, DisabledReason: s.DisabledReason, ConsecutiveFailures: s.ConsecutiveFailures,
		Secrets: secrets, PhoneNumberIDs: s.PhoneNumberIDs,
		CreatedAt: clock.Stamp(s.ID.CreatedAt()), UpdatedAt: clock.Stamp(s.UpdatedAt), InitialSecret: s.InitialSecret,
	}
}

// SecretResource is the JSON of a secret that was just minted.
type SecretResource struct {
	ID        SecretID     `json:"id"`
	Object    string       `json:"object"`
	Secret    string       `json:"secret"`
	CreatedAt clock.Stamp  `json:"created_at"`
	ExpiresAt *clock.Stamp `json:"expires_at"`
}

// Resource shows the secret, this once.
func (s Secret) Resource() SecretResource {
	return SecretResource{
		ID: s.ID, Object: "signing_secret", Secret: s.Plaintext,
		CreatedAt: clock.Stamp(s.ID.CreatedAt()), ExpiresAt: clock.StampOrNil(s.ExpiresAt),
	}
}

// DeliveryResource is the JSON of a delivery.
type DeliveryResource struct {
	ID             DeliveryID     `json:"id"`
	Object         string         `json:"object"`
	SubscriptionID SubscriptionID `json:"subscription_id"`
	EventType      events.Type    `json:"event_type"`
	EventID        string         `json:"event_id"`
	EventUID       events.ID      `json:"event_uid"`
	Status         DeliveryStatus `json:"status"`
	AttemptCount   int            `json:"attempt_count"`
	LastAttemptAt  *clock.Stamp   `json:"last_attempt_at"`
	NextAttemptAt  *clock.Stamp   `json:"next_attempt_at"`
	answered
	ErrorMessage string            `json:"error_message,omitempty"`
	ReplayedFrom *DeliveryID       `json:"replayed_from"`
	Payload      json.RawMessage   `json:"payload,omitempty"`
	CreatedAt    clock.Stamp       `json:"created_at"`
	Attempts     []AttemptResource `json:"attempts,omitzero"`
}

// AttemptResource is the JSON of one try.
type AttemptResource struct {
	Attempt int         `json:"attempt"`
	At      clock.Stamp `json:"at"`
	answered
	ErrorMessage string `json:"error_message,omitempty"`
}

// Resource prints the delivery without its payload.
func (d Delivery) Resource() DeliveryResource {
	return DeliveryResource{
		ID: d.ID, Object: "webhook_delivery", SubscriptionID: d.SubscriptionID, EventType: d.EventType, EventID: d.EventKey, EventUID: d.EventID,
		Status: d.Status, AttemptCount: d.AttemptCount,
		LastAttemptAt: clock.StampOrNil(d.LastAttemptAt), NextAttemptAt: clock.StampOrNil(d.NextAttemptAt),
		answered: d.answered, ErrorMessage: d.Problem(), ReplayedFrom: d.ReplayedFrom, CreatedAt: clock.Stamp(d.ID.CreatedAt()),
	}
}

// Resource prints the delivery with payload and attempts.
func (d Detail) Resource() DeliveryResource {
	resource := d.Delivery.Resource()
	resource.Payload, resource.Attempts = d.Body, []AttemptResource{}
	for _, one := range d.Attempts {
		resource.Attempts = append(resource.Attempts, AttemptResource{
			Attempt: one.Attempt, At: clock.Stamp(one.ID.CreatedAt()), answered: one.answered, ErrorMessage: one.Problem(),
		})
	}
	return resource
}

// Problem says what went wrong and what to do; empty after success.
func (a answered) Problem() string {
	if a.ErrorCode == nil {
		return ""
	}
	if sentence, known := sentences()[*a.ErrorCode]; known {
		return sentence
	}
	if a.ResponseStatus != nil {
		return fmt.Sprintf("The endpoint answered %d. Any 2xx within 10 seconds counts as received.", *a.ResponseStatus)
	}
	return "The endpoint could not be reached."
}

func sentences() map[string]string {
	return map[string]string{
		"dns":                "The name of the endpoint could not be resolved. Check its DNS records.",
		"connect":            "No connection to the endpoint could be made. Check that it listens and that its firewall lets us in.",
		"tls":                "The TLS handshake failed. Check that the certificate is valid, complete and for this name.",
		"timeout":            "The endpoint did not answer within 10 seconds. Answer first, then do the work.",
		"blocked_address":    "The endpoint's address is not a public one.",
		"redirect":           "The endpoint answered with a redirect, which is not followed. Subscribe the final address.",
		codeDiscarded:        "The delivery waited when its subscription was resumed with `backlog: discard`. Replay it if you need it.",
		"internal":           "A fault of the service kept the delivery from being sent. Replay it.",
		"response_too_large": "The endpoint's answer is too large. A status is enough.",
	}
}
