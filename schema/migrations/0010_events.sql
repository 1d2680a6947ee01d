-- +goose Up

-- The events, with the bytes that are posted: encoded once, never again.
-- domain/events inserts them, together with their rows of webhook_deliveries.
CREATE TABLE events (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    -- The event's id in the specification (X-Svc-Event-Id); not unique.
    key text NOT NULL,
    type text NOT NULL,
    -- public events are delivered to matching subscriptions; internal ones are not.
    audience text NOT NULL CHECK (audience IN ('public', 'internal')),
    phone_number_id text,
    -- Events of one subject are delivered in order: a customer.
    subject_id uuid,
    body bytea NOT NULL,
    -- The contact and the message that the event is about, and what else it is about: a
    -- customer, a conversation. Contacts and messages are not repeated in resource_id, which
    -- saves an index entry for each of their events.
    contact_id uuid,
    message_id uuid,
    resource_id uuid,
    -- The API request that caused it; null for callbacks and jobs.
    request_id uuid,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);

-- Erasing a contact, the timeline of a message and of a request, the events of a resource.
CREATE INDEX events_contact ON events (org_id, contact_id, id) WHERE contact_id IS NOT NULL;
CREATE INDEX events_message ON events (org_id, message_id, id) WHERE message_id IS NOT NULL;
CREATE INDEX events_resource ON events (org_id, resource_id, id) WHERE resource_id IS NOT NULL;
CREATE INDEX events_request ON events (org_id, request_id, id) WHERE request_id IS NOT NULL;
