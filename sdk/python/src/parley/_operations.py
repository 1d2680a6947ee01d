"""One method for each operation of the contract.

Made by `make clients-write` from openapi/openapi.yaml; do not edit.
"""

from __future__ import annotations

from typing import Literal

from . import types
from ._core import Core, List, Upload


class Operations(Core):
    def get_health(self) -> types.Health:
        """Is the process alive."""
        return self.request("GET", ["health"])

    def get_me(self) -> types.ApiKeyAnswer:
        """The calling key."""
        return self.request("GET", ["me"])

    def get_open_api(self) -> types.OpenAPIDocument:
        """This document."""
        return self.request("GET", ["openapi.json"])

    def list_accounts(
        self,
        *,
        status: Literal["connected", "all"] | None = None,
        customer_id: types.CustomerId | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.Account, types.AccountList]:
        """List business numbers."""
        return List(
            self,
            ["accounts"],
            query={"status": status, "customer_id": customer_id, "limit": limit, "cursor": cursor},
        )

    def register_number(
        self,
        phone_number_id: str,
        body: types.NumberRegistrationDraft,
        *,
        idempotency_key: str | None = None,
    ) -> types.NumberRegistrationAnswer:
        """Register a number with its PIN."""
        return self.request(
            "POST",
            [phone_number_id, "register"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def list_messages(
        self,
        phone_number_id: str,
        *,
        conversation_id: types.ConversationId | None = None,
        contact_id: types.ContactId | None = None,
        direction: types.MessageDirection | None = None,
        status: types.MessageStatus | None = None,
        type: types.MessageType | None = None,
        created_after: str | None = None,
        created_before: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.Message, types.MessageList]:
        """List messages."""
        return List(
            self,
            [phone_number_id, "messages"],
            query={
                "conversation_id": conversation_id,
                "contact_id": contact_id,
                "direction": direction,
                "status": status,
                "type": type,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def send_message(
        self,
        phone_number_id: str,
        body: types.SendBody,
        *,
        idempotency_key: str | None = None,
    ) -> types.MessageAnswer:
        """Send a message, or mark an inbound one read."""
        return self.request(
            "POST",
            [phone_number_id, "messages"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def validate_message(
        self,
        phone_number_id: str,
        body: types.MessageDraft,
        *,
        idempotency_key: str | None = None,
    ) -> types.MessageValidationAnswer:
        """Check a message without sending it."""
        return self.request(
            "POST",
            [phone_number_id, "messages", "validate"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def get_message(self, phone_number_id: str, id: str) -> types.MessageAnswer:
        """Fetch a message."""
        return self.request("GET", [phone_number_id, "messages", id])

    def get_message_media(self, phone_number_id: str, id: str) -> str:
        """Where the media of a message is."""
        return self.location("GET", [phone_number_id, "messages", id, "media"])

    def get_message_timeline(
        self,
        phone_number_id: str,
        id: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.TimelineEntry, types.TimelineEntryList]:
        """What happened to a message."""
        return List(
            self,
            [phone_number_id, "messages", id, "timeline"],
            query={"limit": limit, "cursor": cursor},
        )

    def list_templates(
        self,
        phone_number_id: str,
        *,
        status: Literal["pending", "approved", "rejected", "all"] | None = None,
        language: types.LanguageCode | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.Template, types.TemplateList]:
        """List templates."""
        return List(
            self,
            [phone_number_id, "templates"],
            query={"status": status, "language": language, "limit": limit, "cursor": cursor},
        )

    def create_template(
        self,
        phone_number_id: str,
        body: types.TemplateDraft,
        *,
        idempotency_key: str | None = None,
    ) -> types.TemplateAnswer:
        """Submit a template for review."""
        return self.request(
            "POST",
            [phone_number_id, "templates"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def sync_templates(
        self,
        phone_number_id: str,
        *,
        idempotency_key: str | None = None,
    ) -> types.TemplateSyncAnswer:
        """Refresh templates from the provider."""
        return self.request(
            "POST",
            [phone_number_id, "templates", "sync"],
            idempotency_key=idempotency_key,
        )

    def get_template(
        self,
        phone_number_id: str,
        name: str,
        *,
        language: types.LanguageCode | None = None,
    ) -> types.TemplateAnswer:
        """Fetch a template by name."""
        return self.request(
            "GET",
            [phone_number_id, "templates", name],
            query={"language": language},
        )

    def update_template(
        self,
        phone_number_id: str,
        name: str,
        body: types.TemplatePatch,
    ) -> types.TemplateAnswer:
        """Edit a template and submit it again."""
        return self.request("PATCH", [phone_number_id, "templates", name], body=body)

    def list_conversations(
        self,
        phone_number_id: str,
        *,
        status: types.ConversationStatus | None = None,
        contact_id: types.ContactId | None = None,
        assigned_to: str | None = None,
        label_id: types.LabelId | None = None,
        unread: bool | None = None,
        updated_since: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.Conversation, types.ConversationList]:
        """List conversations."""
        return List(
            self,
            [phone_number_id, "conversations"],
            query={
                "status": status,
                "contact_id": contact_id,
                "assigned_to": assigned_to,
                "label_id": label_id,
                "unread": unread,
                "updated_since": updated_since,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def get_conversation(self, phone_number_id: str, id: str) -> types.ConversationAnswer:
        """Fetch a conversation."""
        return self.request("GET", [phone_number_id, "conversations", id])

    def update_conversation(
        self,
        phone_number_id: str,
        id: str,
        body: types.ConversationPatch,
    ) -> types.ConversationAnswer:
        """Set the status or the assignee."""
        return self.request("PATCH", [phone_number_id, "conversations", id], body=body)

    def attach_conversation_label(
        self,
        phone_number_id: str,
        id: str,
        body: types.LabelAttachment,
        *,
        idempotency_key: str | None = None,
    ) -> types.ConversationLabelAnswer:
        """Attach a label to a conversation."""
        return self.request(
            "POST",
            [phone_number_id, "conversations", id, "labels"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def detach_conversation_label(
        self,
        phone_number_id: str,
        id: str,
        label_id: str,
    ) -> types.ConversationLabelAnswer:
        """Detach a label from a conversation."""
        return self.request("DELETE", [phone_number_id, "conversations", id, "labels", label_id])

    def list_contacts(
        self,
        phone_number_id: str,
        *,
        phone_number: types.PhoneNumberInput | None = None,
        bsuid: types.Bsuid | None = None,
        username: str | None = None,
        email: str | None = None,
        label_id: types.LabelId | None = None,
        q: str | None = None,
        updated_since: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.Contact, types.ContactList]:
        """List contacts."""
        return List(
            self,
            [phone_number_id, "contacts"],
            query={
                "phone_number": phone_number,
                "bsuid": bsuid,
                "username": username,
                "email": email,
                "label_id": label_id,
                "q": q,
                "updated_since": updated_since,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def create_contact(
        self,
        phone_number_id: str,
        body: types.ContactDraft,
        *,
        idempotency_key: str | None = None,
    ) -> types.ContactAnswer:
        """Create a contact."""
        return self.request(
            "POST",
            [phone_number_id, "contacts"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def bulk_label_contacts(
        self,
        phone_number_id: str,
        body: types.BulkLabelDraft,
        *,
        idempotency_key: str | None = None,
    ) -> types.BulkLabelAnswer:
        """Attach or detach a label on many contacts."""
        return self.request(
            "POST",
            [phone_number_id, "contacts", "bulk_label"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def get_contact(self, phone_number_id: str, id: str) -> types.ContactAnswer:
        """Fetch a contact."""
        return self.request("GET", [phone_number_id, "contacts", id])

    def update_contact(
        self,
        phone_number_id: str,
        id: str,
        body: types.ContactPatch,
    ) -> types.ContactAnswer:
        """Change a contact."""
        return self.request("PATCH", [phone_number_id, "contacts", id], body=body)

    def delete_contact(self, phone_number_id: str, id: str) -> types.DeletionAnswer:
        """Delete a contact."""
        return self.request("DELETE", [phone_number_id, "contacts", id])

    def attach_contact_label(
        self,
        phone_number_id: str,
        id: str,
        body: types.LabelAttachment,
        *,
        idempotency_key: str | None = None,
    ) -> types.ContactLabelAnswer:
        """Attach a label to a contact."""
        return self.request(
            "POST",
            [phone_number_id, "contacts", id, "labels"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def detach_contact_label(
        self,
        phone_number_id: str,
        id: str,
        label_id: str,
    ) -> types.ContactLabelAnswer:
        """Detach a label from a contact."""
        return self.request("DELETE", [phone_number_id, "contacts", id, "labels", label_id])

    def list_labels(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.Label, types.LabelList]:
        """List labels."""
        return List(self, ["labels"], query={"limit": limit, "cursor": cursor})

    def create_label(
        self,
        body: types.LabelDraft,
        *,
        idempotency_key: str | None = None,
    ) -> types.LabelAnswer:
        """Create a label."""
        return self.request("POST", ["labels"], body=body, idempotency_key=idempotency_key)

    def get_label(self, id: str) -> types.LabelAnswer:
        """Fetch a label."""
        return self.request("GET", ["labels", id])

    def update_label(self, id: str, body: types.LabelPatch) -> types.LabelAnswer:
        """Rename or recolor a label."""
        return self.request("PATCH", ["labels", id], body=body)

    def delete_label(self, id: str) -> types.DeletionAnswer:
        """Delete a label."""
        return self.request("DELETE", ["labels", id])

    def list_media(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.Media, types.MediaList]:
        """List library files."""
        return List(self, ["media"], query={"limit": limit, "cursor": cursor})

    def create_media(
        self,
        body: Upload,
        *,
        idempotency_key: str | None = None,
    ) -> types.MediaAnswer:
        """Upload a file to the library."""
        return self.request("POST", ["media"], body=body, idempotency_key=idempotency_key)

    def get_media(self, id: str) -> types.MediaAnswer:
        """Fetch a library file."""
        return self.request("GET", ["media", id])

    def delete_media(self, id: str) -> types.DeletionAnswer:
        """Delete a library file."""
        return self.request("DELETE", ["media", id])

    def list_customers(
        self,
        *,
        status: types.CustomerStatus | None = None,
        email: str | None = None,
        q: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.Customer, types.CustomerList]:
        """List end-customers."""
        return List(
            self,
            ["customers"],
            query={"status": status, "email": email, "q": q, "limit": limit, "cursor": cursor},
        )

    def create_customer(
        self,
        body: types.CustomerDraft,
        *,
        idempotency_key: str | None = None,
    ) -> types.CustomerAnswer:
        """Create an end-customer."""
        return self.request("POST", ["customers"], body=body, idempotency_key=idempotency_key)

    def get_customer(self, id: str) -> types.CustomerAnswer:
        """Fetch an end-customer."""
        return self.request("GET", ["customers", id])

    def update_customer(self, id: str, body: types.CustomerPatch) -> types.CustomerAnswer:
        """Change, suspend or resume an end-customer."""
        return self.request("PATCH", ["customers", id], body=body)

    def archive_customer(self, id: str) -> types.CustomerAnswer:
        """Archive an end-customer."""
        return self.request("DELETE", ["customers", id])

    def list_setup_links(
        self,
        id: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.SetupLink, types.SetupLinkList]:
        """List the setup links of a customer."""
        return List(
            self,
            ["customers", id, "setup_links"],
            query={"limit": limit, "cursor": cursor},
        )

    def create_setup_link(
        self,
        id: str,
        body: types.SetupLinkDraft | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> types.SetupLinkAnswer:
        """Generate a setup link."""
        return self.request(
            "POST",
            ["customers", id, "setup_links"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def get_setup_link(self, id: str, link_id: str) -> types.SetupLinkAnswer:
        """Fetch a setup link."""
        return self.request("GET", ["customers", id, "setup_links", link_id])

    def update_setup_link(
        self,
        id: str,
        link_id: str,
        body: types.SetupLinkPatch,
    ) -> types.SetupLinkAnswer:
        """Change the redirects of a setup link."""
        return self.request("PATCH", ["customers", id, "setup_links", link_id], body=body)

    def revoke_setup_link(self, id: str, link_id: str) -> types.SetupLinkAnswer:
        """Revoke a setup link."""
        return self.request("DELETE", ["customers", id, "setup_links", link_id])

    def disconnect_account(self, id: str, phone_number_id: str) -> types.DisconnectionAnswer:
        """Disconnect a number of an end-customer."""
        return self.request("DELETE", ["customers", id, "whatsapp_accounts", phone_number_id])

    def list_subscriptions(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.WebhookSubscription, types.WebhookSubscriptionList]:
        """List webhook subscriptions."""
        return List(self, ["webhook_subscriptions"], query={"limit": limit, "cursor": cursor})

    def create_subscription(
        self,
        body: types.WebhookSubscriptionDraft,
        *,
        idempotency_key: str | None = None,
    ) -> types.WebhookSubscriptionAnswer:
        """Subscribe an endpoint to events."""
        return self.request(
            "POST",
            ["webhook_subscriptions"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def get_subscription(self, id: str) -> types.WebhookSubscriptionAnswer:
        """Fetch a webhook subscription."""
        return self.request("GET", ["webhook_subscriptions", id])

    def update_subscription(
        self,
        id: str,
        body: types.WebhookSubscriptionPatch,
    ) -> types.WebhookSubscriptionAnswer:
        """Change, pause or resume a webhook subscription."""
        return self.request("PATCH", ["webhook_subscriptions", id], body=body)

    def delete_subscription(self, id: str) -> types.DeletionAnswer:
        """Delete a webhook subscription."""
        return self.request("DELETE", ["webhook_subscriptions", id])

    def mint_secret(
        self,
        id: str,
        body: types.SigningSecretDraft | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> types.SigningSecretAnswer:
        """Mint another signing secret."""
        return self.request(
            "POST",
            ["webhook_subscriptions", id, "secrets"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def revoke_secret(self, id: str, secret_id: str) -> types.DeletionAnswer:
        """Revoke a signing secret."""
        return self.request("DELETE", ["webhook_subscriptions", id, "secrets", secret_id])

    def test_subscription(
        self,
        id: str,
        body: types.SubscriptionTestDraft,
        *,
        idempotency_key: str | None = None,
    ) -> types.WebhookDeliveryAnswer:
        """Send an example event to the endpoint."""
        return self.request(
            "POST",
            ["webhook_subscriptions", id, "test"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def list_deliveries(
        self,
        *,
        subscription_id: types.WebhookSubscriptionId | None = None,
        status: types.WebhookDeliveryStatus | None = None,
        event_type: types.EventType | None = None,
        event_id: str | None = None,
        created_after: str | None = None,
        created_before: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> List[types.WebhookDelivery, types.WebhookDeliveryList]:
        """List webhook deliveries."""
        return List(
            self,
            ["webhook_deliveries"],
            query={
                "subscription_id": subscription_id,
                "status": status,
                "event_type": event_type,
                "event_id": event_id,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def replay_deliveries(
        self,
        body: types.BulkReplayDraft | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> types.BulkReplayAnswer:
        """Replay dead deliveries in bulk."""
        return self.request(
            "POST",
            ["webhook_deliveries", "replay"],
            body=body,
            idempotency_key=idempotency_key,
        )

    def get_delivery(self, id: str) -> types.WebhookDeliveryAnswer:
        """Fetch a webhook delivery."""
        return self.request("GET", ["webhook_deliveries", id])

    def replay_delivery(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> types.WebhookDeliveryAnswer:
        """Replay one webhook delivery."""
        return self.request(
            "POST",
            ["webhook_deliveries", id, "replay"],
            idempotency_key=idempotency_key,
        )
