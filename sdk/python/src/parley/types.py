"""The types of the contract.

Made by `make clients-write` from openapi/openapi.yaml; do not edit.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

# The id of a message.
MessageId: TypeAlias = str

# The id of a conversation.
ConversationId: TypeAlias = str

# The id of a contact.
ContactId: TypeAlias = str

# The id of a label.
LabelId: TypeAlias = str

# The id of an end-customer.
CustomerId: TypeAlias = str

# The id of a setup link.
SetupLinkId: TypeAlias = str

# The id of a template.
TemplateId: TypeAlias = str

# The id of a webhook subscription.
WebhookSubscriptionId: TypeAlias = str

# The id of a signing secret; not the secret itself.
SigningSecretId: TypeAlias = str

# The id of a webhook delivery.
WebhookDeliveryId: TypeAlias = str

# The id of a library file, from `POST /media`.
MediaId: TypeAlias = str

# The id of an event.
EventId: TypeAlias = str

# The id of this request, as in the `X-Request-Id` header.
RequestId: TypeAlias = str

# The provider's id of a business number. It is not the number itself.
PhoneNumberId: TypeAlias = str

# Your own keys and values. At most 50 keys and 16 KiB as JSON.
Metadata: TypeAlias = dict[str, Any]

# Pass it back as `cursor` for the next page; null on the last one.
NextCursor: TypeAlias = str | None

# Whether there is a next page. A page may be shorter than `limit` and not be the last.
HasMore: TypeAlias = bool

# When it was created, in UTC with milliseconds. It never changes.
CreatedAt: TypeAlias = str

# When Parley recorded the event. Retries and replays keep it.
EventTime: TypeAlias = str

# The class of the error. Permanent, like the codes.
ErrorType: TypeAlias = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found",
    "conflict",
    "rate_limit_error",
    "api_error",
]

# What went wrong, for programs. A code never changes its meaning.
# | HTTP | type | codes |
# |---|---|---|
# | 400 | invalid_request_error | `invalid_phone_number`, `invalid_template_name`,
# `missing_required_field`, `invalid_field_value`, `invalid_limit`, `invalid_cursor`,
# `invalid_webhook_url`, `invalid_event_type` |
# | 401 | authentication_error | `missing_api_key`, `invalid_api_key`, `revoked_api_key`,
# `expired_api_key` |
# | 402 | permission_error | `subscription_inactive`, `quota_exceeded`, `feature_not_entitled` |
# | 403 | permission_error | `feature_not_available`, `organization_suspended` |
# | 404 | not_found | `resource_not_found` |
# | 405 | invalid_request_error | `method_not_allowed` |
# | 409 | conflict | `idempotency_in_progress`, `webhook_subscription_disabled`,
# `setup_link_inactive`, `registration_in_progress`, `already_exists`, `customer_archived`,
# `limit_reached` |
# | 413 | invalid_request_error | `request_too_large` |
# | 415 | invalid_request_error | `unsupported_media_type` |
# | 431 | invalid_request_error | `headers_too_large` |
# | 422 | invalid_request_error | `idempotency_key_reuse`, `whatsapp_number_not_verified`,
# `whatsapp_registration_failed`, `cannot_revoke_last_secret`, `media_not_found`,
# `marketing_opted_out`, `account_restricted`, `consent_required`, `customer_suspended`,
# `upstream_error` |
# | 429 | rate_limit_error | `rate_limit_exceeded` |
# | 500 | api_error | `internal_error` |
# | 501 | api_error | `not_implemented`: this version does not serve the operation yet; `x-served:
# false` marks it |
# | 502 | api_error | `whatsapp_upstream_error` |
# | 503 | api_error | `service_unavailable` |
ErrorCode: TypeAlias = Literal[
    "invalid_phone_number",
    "invalid_template_name",
    "missing_required_field",
    "invalid_field_value",
    "invalid_limit",
    "invalid_cursor",
    "invalid_webhook_url",
    "invalid_event_type",
    "missing_api_key",
    "invalid_api_key",
    "revoked_api_key",
    "expired_api_key",
    "subscription_inactive",
    "quota_exceeded",
    "feature_not_entitled",
    "feature_not_available",
    "organization_suspended",
    "resource_not_found",
    "method_not_allowed",
    "idempotency_in_progress",
    "webhook_subscription_disabled",
    "setup_link_inactive",
    "registration_in_progress",
    "already_exists",
    "customer_archived",
    "limit_reached",
    "request_too_large",
    "unsupported_media_type",
    "headers_too_large",
    "idempotency_key_reuse",
    "whatsapp_number_not_verified",
    "whatsapp_registration_failed",
    "cannot_revoke_last_secret",
    "media_not_found",
    "marketing_opted_out",
    "account_restricted",
    "consent_required",
    "customer_suspended",
    "upstream_error",
    "rate_limit_exceeded",
    "internal_error",
    "whatsapp_upstream_error",
    "service_unavailable",
    "not_implemented",
]

# A number in E.164 with the leading `+`; null when it is not known.
PhoneNumber: TypeAlias = str | None

# A number in E.164; the leading `+` may be left out.
PhoneNumberInput: TypeAlias = str

# A business-scoped user id: country code, dot, up to 128 letters and digits.
Bsuid: TypeAlias = str

# A BSUID or a parent BSUID.
Recipient: TypeAlias = str

# Sends are accepted only while it is `connected`.
AccountStatus: TypeAlias = Literal["connected", "disconnected", "degraded", "onboarding"]

# `queued` accepted; `pending` being tried or waiting for another try; `sent` taken by the provider;
# `delivered`, `read` by the recipient; `failed` for good, see `error`.
MessageStatus: TypeAlias = Literal["queued", "pending", "sent", "delivered", "read", "failed"]

# `inbound` is from the contact, `outbound` from the business number, its phone app included.
MessageDirection: TypeAlias = Literal["inbound", "outbound"]

# The kind of content. `location`, `contacts`, `button`, `sticker` and `unsupported` are inbound
# only.
MessageType: TypeAlias = Literal[
    "text",
    "image",
    "document",
    "video",
    "audio",
    "template",
    "interactive",
    "reaction",
    "location",
    "contacts",
    "button",
    "sticker",
    "unsupported",
]

# Why a message failed, for programs. The set is open; known are outside_24h_window,
# marketing_opted_out, marketing_blocked_by_user, recipient_unavailable,
# unsupported_message_type, account_restricted, account_locked, consent_required,
# customer_suspended, permission_revoked, auth_expired, app_rate_limited, account_rate_limited,
# template_not_found, template_paused, template_policy_violation, flow_blocked,
# media_upload_failed, media_download_failed, undeliverable, policy_violation,
# subscription_inactive and upstream_error.
MessageErrorCode: TypeAlias = str

# The public http or https address of the file; the provider fetches it.
MediaLink: TypeAlias = str

# The result of the provider's review. A template that is not `approved` fails when it is sent.
TemplateStatus: TypeAlias = Literal["pending", "approved", "rejected"]

# What the template is for. Opt-out and consent are checked for `MARKETING`.
TemplateCategory: TypeAlias = Literal["MARKETING", "UTILITY", "AUTHENTICATION"]

# The provider's language code.
LanguageCode: TypeAlias = str

# An inbound message sets a resolved or pending conversation to open.
ConversationStatus: TypeAlias = Literal["open", "resolved", "pending"]

# Records what the contact told you about marketing.
MarketingChoice: TypeAlias = Literal["opted_in", "opted_out"]

# The color in which the label is shown.
LabelColor: TypeAlias = Literal[
    "gray",
    "red",
    "orange",
    "amber",
    "yellow",
    "lime",
    "green",
    "emerald",
    "teal",
    "sky",
    "blue",
    "violet",
    "pink",
]

# `pending` until a number is connected or you set `active`. While `suspended` or `archived`, its
# numbers cannot send.
CustomerStatus: TypeAlias = Literal["pending", "active", "suspended", "archived"]

# An https address (http only for localhost); null for none.
RedirectUrl: TypeAlias = str | None

# `disabled` is set by Parley after at least 30 consecutive failures over at least 24 hours, or at
# once when the endpoint answers 410.
WebhookSubscriptionStatus: TypeAlias = Literal["active", "paused", "disabled"]

# https on port 443, 8443 or above 1023, no credentials, no fragment, a public address.
WebhookUrl: TypeAlias = str

# The sixteen events.
EventType: TypeAlias = Literal[
    "message.received",
    "message.status",
    "message.sent",
    "message.revoked",
    "message.edited",
    "conversation.assigned",
    "conversation.closed",
    "contact.created",
    "contact.updated",
    "contact.identity_updated",
    "customer.created",
    "customer.updated",
    "customer.archived",
    "customer.onboarded",
    "customer.setup_link.created",
    "customer.setup_link.consumed",
]

# The types of events to post; a type given twice counts once.
EventTypes: TypeAlias = list[EventType]

# `pending` not yet tried or being tried; `failed` tried and waiting for the next attempt;
# `succeeded`; `dead` given up, can be replayed.
WebhookDeliveryStatus: TypeAlias = Literal["pending", "succeeded", "failed", "dead"]

# Why the delivery could not be made; absent when there was no error. `status` means that the
# endpoint answered, but not with 2xx; `internal`, that a fault of the service kept it from being
# sent; `discarded`, that it waited when its subscription was resumed with `backlog: discard`.
WebhookDeliveryErrorCode: TypeAlias = Literal[
    "dns",
    "connect",
    "tls",
    "timeout",
    "blocked_address",
    "redirect",
    "response_too_large",
    "status",
    "discarded",
    "internal",
]

MediaReady: TypeAlias = Literal["ready"]


class Deletion(TypedDict):
    """The answer to a DELETE."""

    id: str
    """The id that no longer exists."""
    object: Literal["label", "contact", "media", "webhook_subscription", "signing_secret"]
    """What was deleted."""
    deleted: Literal[True]
    """Always true; a repeated DELETE answers 404."""


class DeletionAnswer(TypedDict):
    data: Deletion
    request_id: RequestId


class ErrorEnvelope(TypedDict):
    error: Error


class Error(TypedDict):
    """What went wrong. Branch on `code`."""

    type: ErrorType
    code: ErrorCode
    message: str
    """For people. The text may change; never match on it."""
    param: NotRequired[str]
    """Where the fault is: a pointer into the body (`text.body`, `contact_ids[3]`) or the bare name
    of a query parameter (`limit`). Names of unknown fields are repeated as they were sent; the
    empty name is two quotation marks (`""`), `?` stands for a character that cannot be printed, and
    a pointer of more than 200 characters ends with `…`."""
    request_id: RequestId


class Health(TypedDict):
    status: Literal["ok"]
    """Always `ok`: the process answers. It says nothing about the database."""
    version: str
    """The version of the running program."""


class OpenAPIDocument(TypedDict):
    """An OpenAPI 3.1 document; read it with any OpenAPI tool."""

    openapi: str
    """The version of the OpenAPI format."""
    info: dict[str, Any]
    """Title, version and introduction of the API."""
    paths: dict[str, Any]
    """Every operation by path; `x-served: false` marks those that this server does not serve."""


class ApiKey(TypedDict):
    """The calling key. The key itself is never shown again after it was made."""

    object: Literal["api_key"]
    """The kind of resource; always `api_key`."""
    id: str
    """The id of the key, a UUID; it is not the key itself."""
    name: str
    """The name given when the key was made."""
    last4: str
    """The last four characters of the key."""
    created_at: CreatedAt
    expires_at: str | None
    """From this instant on the key is refused with `expired_api_key`; null for never."""
    organization: Organization
    teams: list[Team]
    """Take `team_id` for labels, customers and media from here."""


class ApiKeyAnswer(TypedDict):
    data: ApiKey
    request_id: RequestId


class Organization(TypedDict):
    """The organization that the calling key belongs to."""

    id: str
    """The id of the organization, a UUID without a prefix."""
    name: str
    """The name given when the organization was created."""
    plan: str
    """The name of the plan; an operator may define more."""
    subscription_status: Literal["trialing", "active", "inactive"]
    """Writes are 402 `subscription_inactive` while `inactive`, and while `trialing` after the trial
    has ended."""
    trial_ends_at: str | None
    """When the trial ends or ended; null without a trial."""
    quota: Quota
    rate_limit: RateLimit


class Quota(TypedDict):
    """Accepted outbound messages in the current calendar month, UTC."""

    limit: int
    """How many outbound messages the plan includes in a month."""
    used: int
    """How many were accepted this month; the count may be about a second old."""
    resets_at: str
    """When the next month begins and `used` starts again from 0."""


class RateLimit(TypedDict):
    """The organization's token bucket."""

    per_second: int
    """Requests regained each second."""
    burst: int
    """Requests that a full bucket holds."""


class Team(TypedDict):
    id: str
    """The id of the team, a UUID without a prefix; `team_id` fields take it."""
    name: str
    """What the members call the team."""
    members: list[TeamMember]
    """The users in the team; empty when it has none."""


class TeamMember(TypedDict):
    """A user; the id is what `assigned_to` takes."""

    id: str
    """The id of the user, a UUID without a prefix."""
    name: str | None
    """The user's name; null when none was given."""
    email: str | None
    """The user's email address; null when none was given."""


class ChatAccount(TypedDict):
    """The business number that a resource belongs to."""

    phone_number: PhoneNumber
    phone_number_id: PhoneNumberId | None
    customer: ChatAccountCustomer | None
    """The owning end-customer; null for a number of the organization itself."""


class ChatAccountCustomer(TypedDict):
    id: CustomerId
    name: str
    """What you call the customer, from your POST or PATCH."""


class Account(TypedDict):
    """A business number that is or was being connected."""

    id: str
    """Internal; paths take `phone_number_id`."""
    object: Literal["account"]
    """The kind of resource; always `account`."""
    phone_number_id: PhoneNumberId | None
    """Null while onboarding is in flight."""
    phone_number: PhoneNumber
    name: str | None
    """The verified display name."""
    status: AccountStatus
    provider_status: str | None
    """The provider's own status of the number; null if it was never fetched."""
    customer_id: CustomerId | None
    """The owning end-customer; null for a number of the organization itself."""
    status_reason: str | None
    """Why the account is not connected, in a word; null when there is nothing to say."""


class AccountList(TypedDict):
    data: list[Account]
    """The numbers on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class NumberRegistration(TypedDict):
    """A number after its registration."""

    object: Literal["phone_number_registration"]
    """The kind of resource; always `phone_number_registration`."""
    phone_number_id: PhoneNumberId
    registered: bool
    """Always true; a registration that fails is answered with an error."""
    status: AccountStatus
    provider_status: str | None
    """The provider's own status after the call, such as `CONNECTED`; null if it was never
    fetched."""


class NumberRegistrationAnswer(TypedDict):
    data: NumberRegistration
    request_id: RequestId


class NumberRegistrationDraft(TypedDict):
    pin: str
    """The six digits of the two-step verification."""


# One message, in or out. The content is in the object named by `type`. Callbacks may arrive out of
# order, so read `status` as a state, not as the last step of a sequence.
Message = TypedDict(
    "Message",
    {
        "id": "MessageId",
        # The kind of resource; always `message`.
        "object": 'Literal["message"]',
        # The recipient; null when the recipient was addressed by BSUID and has no known number. Of
        # an inbound message, the business number.
        "to": "PhoneNumber",
        # The contact's business-scoped user id.
        "bsuid": "str | None",
        # The parent BSUID, for managed business portfolios.
        "parent_bsuid": "str | None",
        # The contact's chat username.
        "username": "str | None",
        "type": "MessageType",
        "status": "MessageStatus",
        # When Parley accepted the message, or stored an inbound one. It never changes.
        "created_at": "str",
        # When the recipient first played an outbound voice note; absent until then.
        "played_at": "NotRequired[str]",
        "conversation_id": "ConversationId",
        # The provider's message id; absent until it is known.
        "message_id": "NotRequired[str]",
        "reaction": "NotRequired[MessageReaction]",
        "unsupported": "NotRequired[MessageUnsupported]",
        "error": "NotRequired[MessageError]",
        "direction": "MessageDirection",
        # The business number, or of an inbound message the contact's.
        "from": "PhoneNumber",
        "contact_id": "ContactId",
        # Present, and true, when the contact deleted the message for everyone. The body stays.
        "is_revoked": "NotRequired[bool]",
        "context": "NotRequired[MessageContext]",
        "text": "NotRequired[MessageText]",
        "image": "NotRequired[MessageFile]",
        "document": "NotRequired[MessageFile]",
        "video": "NotRequired[MessageFile]",
        "audio": "NotRequired[MessageFile]",
        "sticker": "NotRequired[MessageFile]",
        "location": "NotRequired[MessageLocation]",
        # The contact cards of a message of type `contacts`.
        "contacts": "NotRequired[list[MessageContactCard]]",
        "template": "NotRequired[MessageTemplate]",
        "interactive": "NotRequired[MessageInteractive]",
        "button": "NotRequired[MessageButton]",
        "media": "NotRequired[MessageMedia]",
        # Absent until the provider took it. The provider gives whole seconds; a time that would be
        # before the one that goes before it (`created_at`, `sent_at`, `delivered_at`, then the
        # others) is shown as that.
        "sent_at": "NotRequired[str]",
        # Absent until delivered.
        "delivered_at": "NotRequired[str]",
        # Absent until read.
        "read_at": "NotRequired[str]",
        # Absent unless it failed.
        "failed_at": "NotRequired[str]",
        # What the send carried in `biz_opaque_callback_data`.
        "client_reference": "NotRequired[str]",
    },
)


class MessageAnswer(TypedDict):
    data: Message
    request_id: RequestId


class MessageList(TypedDict):
    data: list[Message]
    """The messages on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class MessageError(TypedDict):
    """Why the message failed."""

    code: MessageErrorCode
    message: str
    """For people."""
    provider_code: int | None
    """The provider's own number for it; null when Parley refused."""


class MessageMedia(TypedDict):
    """The state of the message's file; the file itself is behind `/media` of the message."""

    status: Literal["pending", "ready", "failed"]
    """`pending` while Parley fetches the file; `ready` when you can fetch it; `failed` when it
    cannot be had."""
    mime_type: str | None
    """Null while it is not known."""
    size: int | None
    """In bytes; null while it is not known."""


class MessageText(TypedDict):
    """The content of a text message."""

    body: str
    """The text; an edit that the provider passes on replaces it."""
    preview_url: NotRequired[bool]
    """Whether the send asked for a preview of the first link; absent when it did not say."""


class MessageFile(TypedDict):
    """The file of a message: what the send gave, or what the provider says about a received
    file."""

    id: NotRequired[str]
    """As sent; of an inbound file the provider's."""
    link: NotRequired[str]
    """The link as sent."""
    caption: NotRequired[str]
    """The text below the file; absent when there is none."""
    filename: NotRequired[str]
    """The name of a document; absent when there is none."""
    mime_type: NotRequired[str]
    """The content type of a received file, as the provider gives it."""
    sha256: NotRequired[str]
    """The SHA-256 of a received file in base64, as the provider gives it."""
    voice: NotRequired[bool]
    """True for a voice note."""
    animated: NotRequired[bool]
    """True for an animated sticker."""


class MessageReaction(TypedDict):
    """A reaction to another message."""

    message_id: str
    """The provider message id that is reacted to."""
    emoji: str
    """Empty when the reaction was removed."""


class MessageUnsupported(TypedDict):
    """Only on messages whose type is `unsupported`."""

    type: str
    """What the provider could not pass on; further values may appear."""


class MessageContext(TypedDict):
    """The message that this one answers."""

    message_id: NotRequired[str]
    """The provider message id that is quoted."""
    forwarded: NotRequired[bool]
    """True when the contact forwarded the message."""
    frequently_forwarded: NotRequired[bool]
    """True when the message has been forwarded many times."""


class MessageLocation(TypedDict):
    """A place that the contact shared."""

    latitude: float
    """In degrees, north is positive."""
    longitude: float
    """In degrees, east is positive."""
    name: NotRequired[str]
    """The name of the place; absent when it has none."""
    address: NotRequired[str]
    """The address of the place; absent when it has none."""
    url: NotRequired[str]
    """A web page about the place; absent when it has none."""


class MessageContactCardName(TypedDict):
    """The names on the card."""

    formatted_name: NotRequired[str]
    """The full name as the card shows it."""
    first_name: NotRequired[str]
    """The given name; absent when the card has none."""
    last_name: NotRequired[str]
    """The family name; absent when the card has none."""


class MessageContactCardPhonesItem(TypedDict):
    phone: NotRequired[str]
    """The number as it is written on the card, in any form."""
    type: NotRequired[str]
    """What the number is for, as the card says, such as work or home."""
    wa_id: NotRequired[str]
    """The number in digits; absent when the provider does not know it on the network."""


class MessageContactCard(TypedDict):
    """A contact card as the provider passes it on."""

    name: NotRequired[MessageContactCardName]
    """The names on the card."""
    phones: NotRequired[list[MessageContactCardPhonesItem]]
    """The phone numbers on the card."""


class MessageTemplate(TypedDict):
    """The template as it was sent."""

    name: str
    """Which template was sent."""
    language: TemplateLanguage
    components: NotRequired[list[TemplateSendComponent]]
    """The values that filled the variables of the template."""


class MessageInteractiveNfmReply(TypedDict):
    """The form that the contact filled in and sent."""

    name: NotRequired[str]
    """What kind of form it is, in the provider's words."""
    body: NotRequired[str]
    """The text that the chat shows in place of the form."""
    response_json: NotRequired[str]
    """The values of the form as JSON in a string."""


class MessageInteractive(TypedDict):
    """What was sent (`button`, `list`, `cta_url`, `flow`), or the answer to it (`button_reply`,
    `list_reply`, `nfm_reply`)."""

    type: str
    """What kind it is; of an answer, the name of the field that holds it."""
    button_reply: NotRequired[InteractiveReply]
    list_reply: NotRequired[InteractiveReply]
    nfm_reply: NotRequired[MessageInteractiveNfmReply]
    """The form that the contact filled in and sent."""


class InteractiveReply(TypedDict):
    """The button or row that the contact chose."""

    id: str
    """The id of the button or row that was chosen."""
    title: str
    """The label of the button or row, as the contact saw it."""
    description: NotRequired[str]
    """The second line of a row; absent for buttons and for rows without one."""


class MessageButton(TypedDict):
    """A tap on a quick-reply button of a template."""

    payload: NotRequired[str]
    """The `payload` that the send gave to the button."""
    text: NotRequired[str]
    """The label of the button."""


class SendCommon(TypedDict):
    """What every send has. `to` or `recipient` is needed; if both are given, `to` wins."""

    messaging_product: Literal["chat"]
    """The network to send on; always `chat`."""
    recipient_type: NotRequired[Literal["individual"]]
    """Always `individual`; it may be left out."""
    to: NotRequired[PhoneNumberInput]
    recipient: NotRequired[Recipient]
    context: NotRequired[SendContext]
    biz_opaque_callback_data: NotRequired[str]
    """Your own reference; the message carries it as `client_reference`."""


class SendContext(TypedDict):
    """Makes the send a reply that quotes an inbound message."""

    message_id: str
    """The provider message id from an inbound webhook, not a `msg_` id."""


class SendText(SendCommon):
    type: Literal["text"]
    """Always `text`; the content is in the field of that name."""
    text: TextContent


class SendImage(SendCommon):
    type: Literal["image"]
    """Always `image`; the content is in the field of that name."""
    image: ImageContent


class SendDocument(SendCommon):
    type: Literal["document"]
    """Always `document`; the content is in the field of that name."""
    document: DocumentContent


class SendVideo(SendCommon):
    type: Literal["video"]
    """Always `video`; the content is in the field of that name."""
    video: VideoContent


class SendAudio(SendCommon):
    type: Literal["audio"]
    """Always `audio`; the content is in the field of that name."""
    audio: AudioContent


class SendTemplate(SendCommon):
    type: Literal["template"]
    """Always `template`; the content is in the field of that name."""
    template: TemplateContent


class SendInteractive(SendCommon):
    type: Literal["interactive"]
    """Always `interactive`; the content is in the field of that name."""
    interactive: InteractiveContent


class SendReaction(SendCommon):
    type: Literal["reaction"]
    """Always `reaction`; the content is in the field of that name."""
    reaction: ReactionContent


class ReadReceipt(TypedDict):
    """Marks an inbound message, and all earlier ones of its conversation, as read."""

    messaging_product: NotRequired[Literal["chat"]]
    """The network; always `chat`. It may be left out."""
    status: Literal["read"]
    """Always `read`; this makes the body a read receipt."""
    message_id: str
    """The provider message id of an inbound message."""
    typing_indicator: NotRequired[TypingIndicator]


class TypingIndicator(TypedDict):
    """Shows a typing bubble until your first message or for about 25 seconds."""

    type: Literal["text"]
    """The kind of bubble; always `text`."""


class TextContent(TypedDict):
    """The text to send."""

    body: str
    """1 to 4096 characters, counted as Unicode code points."""
    preview_url: NotRequired[bool]
    """Shows a preview of the first link in the text."""


class ImageContent(TypedDict):
    """Exactly one of `link` and `id`."""

    link: NotRequired[MediaLink]
    id: NotRequired[MediaId]
    caption: NotRequired[str]
    """The text below the image, up to 1024 characters."""


class DocumentContent(TypedDict):
    """Exactly one of `link` and `id`."""

    link: NotRequired[MediaLink]
    id: NotRequired[MediaId]
    caption: NotRequired[str]
    """The text below the document, up to 1024 characters."""
    filename: NotRequired[str]
    """The name shown; its extension picks the icon."""


class VideoContent(TypedDict):
    """Exactly one of `link` and `id`."""

    link: NotRequired[MediaLink]
    id: NotRequired[MediaId]
    caption: NotRequired[str]
    """The text below the video, up to 1024 characters."""


class AudioContent(TypedDict):
    """Exactly one of `link` and `id`."""

    link: NotRequired[MediaLink]
    id: NotRequired[MediaId]
    voice: NotRequired[bool]
    """Sends it as a voice note (mono OGG with Opus). An audio has no caption."""


class ReactionContent(TypedDict):
    """The emoji to react with, or none to remove the reaction."""

    message_id: str
    """The provider message id to react to."""
    emoji: str
    """Empty removes the reaction."""


class TemplateContent(TypedDict):
    """The template to send, and the values of its variables."""

    name: str
    """The template's name; surrounding blanks are cut off."""
    language: TemplateLanguage
    components: NotRequired[list[TemplateSendComponent]]
    """The values of the template's variables."""


class TemplateLanguageObject(TypedDict):
    code: str
    """The provider's language code of the template, such as `en_US`."""
    policy: NotRequired[str]
    """Passed on to the provider; it may be left out."""


class TemplateSendComponent(TypedDict):
    type: str
    """The component, in any case."""
    sub_type: NotRequired[str]
    """The kind of a button."""
    index: NotRequired[int | str]
    """The place of a button, from 0."""
    parameters: NotRequired[list[TemplateParameter]]
    """The values of this component: by name if the template names its variables, else in their
    order."""
    cards: NotRequired[list[TemplateSendCard]]
    """The cards of a carousel."""


class TemplateSendCard(TypedDict):
    card_index: NotRequired[int]
    """Which card it is, from 0. Left out, it is the place in the list."""
    components: list[TemplateSendComponent]
    """The values of the card's header, body and buttons."""


class TemplateParameterCurrency(TypedDict):
    """An amount of money."""

    fallback_value: str
    """The text that is shown."""
    code: NotRequired[str]
    """The currency by its ISO 4217 code, such as `EUR`."""
    amount_1000: NotRequired[int]
    """The amount, multiplied by 1000."""


class TemplateParameterDateTime(TypedDict):
    """A date or a time, written out by you."""

    fallback_value: str
    """The text that is shown."""


class TemplateParameter(TypedDict):
    """One value; the object named by `type` carries it."""

    type: str
    """The kind of value; the field of that name carries it."""
    text: NotRequired[str]
    """The text for the variable; for a URL button, the end of its address."""
    parameter_name: NotRequired[str]
    """Needed when the template names its variables."""
    currency: NotRequired[TemplateParameterCurrency]
    """An amount of money."""
    date_time: NotRequired[TemplateParameterDateTime]
    """A date or a time, written out by you."""
    image: NotRequired[MediaParameter]
    video: NotRequired[MediaParameter]
    document: NotRequired[MediaParameter]
    location: NotRequired[LocationParameter]
    payload: NotRequired[str]
    """For a quick-reply button: comes back in `button.payload` when the contact taps it."""
    coupon_code: NotRequired[str]
    """The code that a copy-code button copies, up to 20 characters."""
    action: NotRequired[dict[str, Any]]
    """Flow or catalog data."""


class LocationParameter(TypedDict):
    """The place that the header of the template shows."""

    latitude: Coordinate
    longitude: Coordinate
    name: NotRequired[str]
    """The name shown with the place."""
    address: NotRequired[str]
    """The address shown with the place."""


class MediaParameter(TypedDict):
    """Exactly one of `link` and `id`."""

    link: NotRequired[MediaLink]
    id: NotRequired[MediaId]
    filename: NotRequired[str]
    """The name shown for a document."""


class InteractiveContentBody(TypedDict):
    """The main text."""

    text: str
    """Up to 1024 characters; in a list up to 4096."""


class InteractiveContentFooter(TypedDict):
    """A line of small text below the body."""

    text: str
    """The line, up to 60 characters."""


class InteractiveContent(TypedDict):
    """What `action` needs depends on `type`: | type | action | |---|---| | `button` (also
    `reply_buttons`) | `buttons`, 1 to 3 with different titles | | `list` | `button`, `sections`
    with at most 10 rows in all; header text only | | `cta_url` | `name: cta_url`, `parameters` with
    `display_text` and `url` | | `flow` | `name: flow`, `parameters` with `flow_message_version`,
    `flow_cta`, and `flow_id` or `flow_name` |"""

    type: Literal["button", "reply_buttons", "list", "cta_url", "flow"]
    """What the contact can do; `reply_buttons` means the same as `button`."""
    header: NotRequired[InteractiveHeader]
    body: InteractiveContentBody
    """The main text."""
    footer: NotRequired[InteractiveContentFooter]
    """A line of small text below the body."""
    action: InteractiveAction


class InteractiveHeader(TypedDict):
    """A text, or a file in the object named by `type`."""

    type: Literal["text", "image", "video", "document"]
    """What the header shows; a `list` takes only `text`."""
    text: NotRequired[str]
    """The line of a `text` header, up to 60 characters."""
    image: NotRequired[MediaParameter]
    video: NotRequired[MediaParameter]
    document: NotRequired[MediaParameter]


class InteractiveAction(TypedDict):
    """What the contact can tap; which fields it needs depends on the `type` of the message."""

    buttons: NotRequired[list[InteractiveButton]]
    """For `button`: 1 to 3 buttons with different titles."""
    button: NotRequired[str]
    """The label that opens a list."""
    sections: NotRequired[list[InteractiveSection]]
    """For `list`: the groups of rows, at most 10 rows in all."""
    name: NotRequired[Literal["cta_url", "flow"]]
    """For `cta_url` and `flow`: the type of the message once more."""
    parameters: NotRequired[InteractiveParameters]


class InteractiveButtonReply(TypedDict):
    """What the button shows, and what comes back when the contact taps it."""

    id: str
    """Comes back with the tap."""
    title: str
    """Unique among the buttons."""


class InteractiveButton(TypedDict):
    type: Literal["reply"]
    """The kind of button; always `reply`."""
    reply: InteractiveButtonReply
    """What the button shows, and what comes back when the contact taps it."""


class InteractiveSectionRowsItem(TypedDict):
    id: str
    """Comes back in `list_reply.id` when the contact chooses the row."""
    title: str
    """The first line of the row, up to 24 characters."""
    description: NotRequired[str]
    """The second line of the row, up to 72 characters; it may be left out."""


class InteractiveSection(TypedDict):
    title: NotRequired[str]
    """Needed when there are several sections."""
    rows: list[InteractiveSectionRowsItem]
    """The choices in this section; all sections together have at most 10."""


class InteractiveParametersFlowActionPayload(TypedDict):
    """With `navigate`: where the form begins."""

    screen: NotRequired[str]
    """The id of the first screen."""
    data: NotRequired[dict[str, Any]]
    """The input of the first screen, as the flow defines it."""


class InteractiveParameters(TypedDict):
    """For `cta_url`: the label and the link. For `flow`: which form to open, and how."""

    display_text: NotRequired[str]
    """The label of the link button."""
    url: NotRequired[str]
    """Where the link button leads."""
    flow_message_version: NotRequired[str]
    """The provider's version of flow messages, such as `3`."""
    flow_id: NotRequired[str]
    """The provider's id of the flow. Give this or `flow_name`."""
    flow_name: NotRequired[str]
    """The name of the flow. Give this or `flow_id`."""
    flow_cta: NotRequired[str]
    """The label that opens the form."""
    mode: NotRequired[Literal["draft", "published"]]
    """`draft` sends a flow that is not published yet, for tests."""
    flow_token: NotRequired[str]
    """Your own reference for this form; the provider gets it with the send."""
    flow_action: NotRequired[Literal["navigate", "data_exchange"]]
    """`navigate` opens a given screen; `data_exchange` asks your endpoint for the first one."""
    flow_action_payload: NotRequired[InteractiveParametersFlowActionPayload]
    """With `navigate`: where the form begins."""


class MessageValidation(TypedDict):
    """Whether a message would fail now, and why."""

    object: Literal["message_validation"]
    """The kind of resource; always `message_validation`."""
    valid: bool
    """True when nothing is known that would make the message fail. The provider may still refuse it
    with one of `unchecked`."""
    errors: list[MessageValidationError]
    """Every reason why the message would fail now, in the order of the checks; empty when valid. Of
    the faults of the body the first 20 are listed."""
    unchecked: list[MessageValidationDoubt]
    """The errors of messages that nobody can know before, and that can concern this message. A code
    in `errors` is not repeated here."""


class MessageValidationAnswer(TypedDict):
    data: MessageValidation
    request_id: RequestId


class MessageValidationError(TypedDict):
    code: ErrorCode | MessageErrorCode
    """The code of the refusal that a send would get, or of the error that the message would end
    with."""
    message: str
    """What is wrong and what to do, for people. The text may change."""
    param: NotRequired[str]
    """The field at fault, such as `text.body`; absent when no field is at fault."""


class MessageValidationDoubt(TypedDict):
    code: MessageErrorCode
    message: str
    """What was not checked, for people. The text may change."""


class TimelineDetail(TypedDict):
    """What is known of a step. Every step has a `summary`; which of the other fields it has depends
    on its kind. More fields may come."""

    summary: str
    """What happened, in one or two sentences for people. The text may change."""
    method: NotRequired[str]
    """Of a request: its method."""
    path: NotRequired[str]
    """Of a request: its path, without the query."""
    api_key_id: NotRequired[str]
    """Of a request: the API key it was made with."""
    direction: NotRequired[Literal["inbound", "outbound"]]
    """Of `accepted`: whether the person or the business wrote the message."""
    source: NotRequired[str]
    """Of `accepted`: where the message came from: `api`, `app` (the phone app), `broadcast`,
    `contact`."""
    sent_at: NotRequired[str]
    """Of `accepted`, of an inbound message: when the person sent it."""
    media_status: NotRequired[Literal["pending", "ready", "failed"]]
    """Of `accepted`, if Parley has or fetches the file of the message: its state now."""
    type: NotRequired[str]
    """Of `accepted`: the type of the message. Of an event or delivery: the type of the event."""
    attempt: NotRequired[int]
    """Of an attempt to send: its number. Of a delivery: the number of the attempt that the step is;
    absent in the step that is the delivery as a whole."""
    outcome: NotRequired[Literal["sent", "failed", "refused", "not_called", "unknown", "under_way"]]
    """Of an attempt to send. `sent`: the provider took the message. `failed`: it could not take it
    then. `refused`: it will not take it. `not_called`: a check failed before the call. `unknown`:
    there was no answer that says whether it took the message. `under_way`: there is no result
    yet."""
    resend: NotRequired[bool]
    """Of an attempt to send: true if the result of the attempt before it was unknown."""
    waited_until: NotRequired[str]
    """Of an attempt to send whose result is unknown: until when Parley waited for a callback before
    it sent again; or, while it waits, until when it waits at least."""
    duration_ms: NotRequired[int]
    """How long a request, an attempt to send or an attempt of a delivery took."""
    code: NotRequired[MessageErrorCode]
    provider_code: NotRequired[int]
    """The provider's own number for it; absent when the provider gave none."""
    status: NotRequired[str]
    """Of `accepted`: the first status of the message. Of a status: it, or `played`. Of an event
    `message.status`: the status that it tells. Of a delivery: its status now."""
    known_by: NotRequired[Literal["answer", "callback", "parley"]]
    """Of a status: whether the provider's answer to an attempt told it, or a callback, or
    neither."""
    event_id: NotRequired[str]
    """Of an event or delivery: `X-Svc-Event-Id`."""
    event_uid: NotRequired[str]
    """Of a delivery: `X-Svc-Event-Uid`, the id of the step that is its event."""
    delivery_id: NotRequired[str]
    """Of an attempt of a delivery: the delivery."""
    subscription_id: NotRequired[WebhookSubscriptionId]
    host: NotRequired[str]
    """Of a delivery: the host of the subscription's URL; absent when the subscription was
    deleted."""
    attempt_count: NotRequired[int]
    """Of a delivery: how many attempts were made."""
    response_status: NotRequired[int]
    """Of a request: the status that it was answered with. Of a delivery: the status that your
    endpoint answered with."""
    error_code: NotRequired[WebhookDeliveryErrorCode]
    next_attempt_at: NotRequired[str]
    """Of a delivery or one of its attempts: when the next attempt was made, or is due at the
    earliest. Absent while the subscription is paused or disabled, and after it was deleted."""
    replayed_from: NotRequired[str]
    """Of a delivery that is a replay: the delivery that it repeats."""


class TimelineEntry(TypedDict):
    object: Literal["timeline_entry"]
    """The kind of resource; always `timeline_entry`."""
    id: str
    """What the step is about: a request, message, event or delivery; `msg_…:1` and `wbd_…:1` are
    attempts, `msg_…:delivered` is a status, `msg_…:superseded` a failure that a later callback
    superseded. Unique in its timeline."""
    at: str
    """When the step happened; of an attempt, when it began. The provider tells the times of
    statuses in whole seconds: a status is never before the attempt or status that it follows."""
    kind: Literal["request", "accepted", "attempt", "status", "event", "delivery"]
    """The step: your request, its acceptance (or the arrival of an inbound message), an attempt to
    send, a status, an event or its delivery. A delivery that did not succeed at once has a further
    step of this kind for each of its attempts."""
    detail: TimelineDetail


class TimelineEntryList(TypedDict):
    data: list[TimelineEntry]
    """The steps on this page, oldest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId
    left_out: list[TimelineLeftOut]
    """What the whole timeline does not show, and why; the same on each page. Empty when it is
    complete."""


class TimelineLeftOut(TypedDict):
    kind: Literal["request", "event", "delivery"]
    """The kind of steps that are left out."""
    reason: Literal["expired", "too_many", "not_logged"]
    """`expired`: they are older than 30 days. `too_many`: only the first ones are shown.
    `not_logged`: the API log does not have the request (yet)."""
    message: str
    """The same in a sentence for people. The text may change."""


class Template(TypedDict):
    """A message template as one number has it."""

    id: TemplateId
    object: Literal["template"]
    """The kind of resource; always `template`."""
    name: str
    """What sends name it by; several languages may share a name."""
    language: LanguageCode
    status: TemplateStatus
    category: TemplateCategory | None
    """Null for a template synced before the field was recorded; a later sync fills it."""
    content: str
    """The text of the body."""
    variables: list[str]
    """The names of the variables, in order of first appearance over header, body and buttons."""
    components: list[TemplateComponent]
    """Header, body, footer and buttons as the provider has them."""
    chat_account: ChatAccount
    provider_template_id: str | None
    """The provider's id, which numbers of one business account share; null when it gave none."""
    created_at: CreatedAt
    updated_at: str
    """When a sync, a notification of the provider or your PATCH last changed it."""
    provider_status: str | None
    """The provider's own status, finer than ours."""
    rejection_reason: str | None
    """Why the provider rejected it."""
    quality: str | None
    """The provider's quality score."""


class TemplateAnswer(TypedDict):
    data: Template
    request_id: RequestId


class TemplateList(TypedDict):
    data: list[Template]
    """The templates on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class TemplateDraft(TypedDict):
    name: str
    """Small letters, digits and underscores."""
    language: LanguageCode
    category: TemplateCategory
    components: list[TemplateComponent]
    """The parts of the template: header, body, footer, and buttons or a carousel."""
    parameter_format: NotRequired[Literal["POSITIONAL", "NAMED"]]
    """`{{1}}` or `{{name}}`."""


class TemplatePatch(TypedDict):
    components: list[TemplateComponent]
    """All parts of the template; they replace the old ones and are reviewed again."""
    category: NotRequired[TemplateCategory]
    language: NotRequired[LanguageCode]
    """Which one; needed when the name exists in several languages."""


class TemplateComponent(TypedDict):
    """A part of the template in the provider's shape; further fields are passed on. Every variable
    needs an example."""

    type: str
    """Which part of the template it is. A draft is refused if it has others than `HEADER`, `BODY`,
    `FOOTER`, `BUTTONS`, `CAROUSEL` and `LIMITED_TIME_OFFER`."""
    format: NotRequired[str]
    """Of a header."""
    text: NotRequired[str]
    """The text of a header, body or footer, with its variables in double braces."""
    example: NotRequired[TemplateExample]
    buttons: NotRequired[list[TemplateButton]]
    """The buttons of a `BUTTONS` component, in the order shown."""
    cards: NotRequired[list[TemplateCard]]
    """The cards of a media-card carousel, all built alike. Marketing only."""


class TemplateExample(TypedDict):
    """Sample values for the provider's review."""

    header_url: NotRequired[str]
    """A public https address; Parley uploads the file."""
    header_handle: NotRequired[list[str]]
    """The provider's upload handle, or a public https address."""
    header_text: NotRequired[list[str]]
    """A sample value for the variable in a text header."""
    body_text: NotRequired[list[list[str]]]
    """One list with a sample value for each variable of the body, in their order."""


class TemplateButton(TypedDict):
    type: str
    """What happens when the contact taps the button. A draft is refused if it has others than
    `QUICK_REPLY`, `URL`, `PHONE_NUMBER`, `COPY_CODE`, `OTP`, `FLOW`, `CATALOG`, `MPM`, `SPM`,
    `VOICE_CALL` and `REQUEST_CONTACT_INFO`."""
    text: NotRequired[str]
    """The label, up to 25 characters."""
    url: NotRequired[str]
    """The address that a `URL` button opens; it may end in one variable."""
    phone_number: NotRequired[str]
    """The number that a `PHONE_NUMBER` button calls."""


class TemplateCard(TypedDict):
    components: list[TemplateComponent]
    """The parts of the card: header, body and buttons."""


class TemplateSync(TypedDict):
    """How many templates the sync found in each state."""

    created: int
    """Templates that were not stored here before."""
    updated: int
    """Templates that had changed at the provider."""
    unchanged: int
    """Templates that were up to date here."""
    removed: int
    """Templates that the provider does not list any more and that were deleted here."""


class TemplateSyncAnswer(TypedDict):
    data: TemplateSync
    request_id: RequestId


class Conversation(TypedDict):
    """All messages between one contact and one number, and the state of their handling."""

    id: ConversationId
    object: Literal["conversation"]
    """The kind of resource; always `conversation`."""
    status: ConversationStatus
    contact: ConversationContact
    chat_account: ChatAccount
    assignee: ConversationAssignee | None
    """The assigned user; null when no user is assigned."""
    unread_count: int
    """Unread inbound messages. A read receipt recounts them; a reply from the phone app or
    dashboard makes it 0."""
    last_message_at: str | None
    """The time of the latest message, in or out; null before the first. Reactions do not count."""
    last_inbound_at: str | None
    """When the contact last wrote, by the provider's clock; null if never. Reactions do not
    count."""
    created_at: CreatedAt
    updated_at: str
    """When a message, or a change of status, assignee, unread count, labels or contact last changed
    it."""
    labels: list[LabelSummary]
    """The labels attached to the conversation, at most 100; those of its contact are not
    included."""


class ConversationContact(TypedDict):
    """The contact in short."""

    id: ContactId
    phone_number: PhoneNumber
    name: str | None
    """What people call the contact; null while no name is known."""


class ConversationAssignee(TypedDict):
    id: str
    """The id of the user, as `assigned_to` takes it."""
    name: str | None
    """The user's name; null when none was given."""
    email: str | None
    """The user's email address; null when none was given."""


class ConversationAnswer(TypedDict):
    data: Conversation
    request_id: RequestId


class ConversationList(TypedDict):
    data: list[Conversation]
    """The conversations on this page, latest message first; with `updated_since`, latest change
    first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class ConversationPatch(TypedDict):
    status: NotRequired[ConversationStatus]
    assigned_to: NotRequired[str | None]
    """A user of the organization; null takes the assignment back."""


class LabelAttachment(TypedDict):
    label_id: LabelId


class ConversationLabel(TypedDict):
    """Whether a label is attached to a conversation now."""

    conversation_id: ConversationId
    label_id: LabelId
    attached: bool
    """True after an attach, false after a detach, also when it was so before."""


class ConversationLabelAnswer(TypedDict):
    data: ConversationLabel
    request_id: RequestId


class Contact(TypedDict):
    """A person who writes to a business number or is written to."""

    id: ContactId
    object: Literal["contact"]
    """The kind of resource; always `contact`."""
    phone_number: PhoneNumber
    bsuid: str | None
    """The business-scoped user id."""
    parent_bsuid: str | None
    """The parent BSUID, for managed business portfolios."""
    username: str | None
    """Compared without regard to case; dots and underscores count."""
    name: str | None
    """What people call the contact, from your POST or PATCH or their own profile; null while not
    known."""
    email: str | None
    """From your POST or PATCH; null when none is set."""
    metadata: Metadata | None
    chat_account: ChatAccount
    created_at: CreatedAt
    updated_at: str
    """When a field of the contact last changed, or a label was attached or detached."""
    marketing: ContactMarketing
    labels: list[LabelSummary]
    """The labels attached to the contact, at most 100; those of its conversation are not
    included."""


class ContactMarketing(TypedDict):
    """Whether the contact wants marketing, and who said so."""

    state: Literal["opted_in", "opted_out", "unknown"]
    """`opted_out` refuses marketing templates; `unknown` while the contact has made no choice."""
    updated_at: str | None
    """When the choice was made or taken back; null if there never was one."""
    source: str | None
    """Where the state came from; null while it is unknown."""


class ContactAnswer(TypedDict):
    data: Contact
    request_id: RequestId


class ContactList(TypedDict):
    data: list[Contact]
    """The contacts on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class ContactDraft(TypedDict):
    """`phone_number` or `bsuid` is needed."""

    phone_number: NotRequired[PhoneNumberInput]
    bsuid: NotRequired[Bsuid]
    username: NotRequired[str]
    """The chat username, 1 to 100 characters; a leading `@` is cut off."""
    name: NotRequired[str]
    """What people call the contact. Left out, their profile fills it when they write."""
    email: NotRequired[str]
    """For your own use; Parley sends no email to it."""
    metadata: NotRequired[Metadata]
    marketing: NotRequired[MarketingChoice]


class ContactPatch(TypedDict):
    name: NotRequired[str | None]
    """What people call the contact. Null clears it; their profile then fills it when they write."""
    username: NotRequired[str | None]
    """The chat username; a leading `@` is cut off. Null clears it."""
    email: NotRequired[str | str]
    """An email address; the empty string clears it."""
    metadata: NotRequired[Metadata | None]
    """Replaces what is there; null clears it."""
    marketing: NotRequired[MarketingChoice]


class ContactLabel(TypedDict):
    """Whether a label is attached to a contact now."""

    contact_id: ContactId
    label_id: LabelId
    attached: bool
    """True after an attach, false after a detach, also when it was so before."""


class ContactLabelAnswer(TypedDict):
    data: ContactLabel
    request_id: RequestId


class BulkLabelDraft(TypedDict):
    contact_ids: list[ContactId]
    """1 to 1000 contacts of the number in the path; others are skipped and counted."""
    label_id: LabelId
    operation: Literal["attach", "detach"]
    """Whether to put the label on the contacts or to take it off."""


class BulkLabel(TypedDict):
    """Counts of contacts. `attached` or `detached` is present, by the operation."""

    requested: int
    """How many ids the call named."""
    attached: NotRequired[int]
    """How many contacts got the label; absent after a detach."""
    detached: NotRequired[int]
    """How many contacts lost the label; absent after an attach."""
    unchanged: int
    """How many contacts were already as asked."""
    skipped_cross_org: int
    """Contacts that the number in the path does not own."""


class BulkLabelAnswer(TypedDict):
    data: BulkLabel
    request_id: RequestId


class Label(TypedDict):
    """A tag of one team for contacts and conversations."""

    id: LabelId
    object: Literal["label"]
    """The kind of resource; always `label`."""
    name: str
    """Unique in its team without regard to case."""
    color: LabelColor
    team_id: str
    """Labels belong to one team."""
    created_at: CreatedAt
    updated_at: str
    """When the name or the color last changed."""


class LabelAnswer(TypedDict):
    data: Label
    request_id: RequestId


class LabelList(TypedDict):
    data: list[Label]
    """The labels on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class LabelDraft(TypedDict):
    name: str
    """1 to 60 characters, not blank. Unique in the team without regard to case, else 409
    `already_exists`."""
    color: NotRequired[LabelColor]
    team_id: NotRequired[str]
    """Needed only when the organization has several teams."""


class LabelPatch(TypedDict):
    name: NotRequired[str]
    """1 to 60 characters, not blank. Unique in the team without regard to case, else 409
    `already_exists`."""
    color: NotRequired[LabelColor]


class LabelSummary(TypedDict):
    """A label where it is attached."""

    id: LabelId
    name: str
    """The text on the label."""
    color: LabelColor


class Media(TypedDict):
    """A file of the library, which sends refer to by `id`."""

    id: MediaId
    object: Literal["media"]
    """The kind of resource; always `media`."""
    team_id: str
    """The team whose numbers may send the file; for others it is `media_not_found`."""
    type: Literal["image", "document", "video", "audio"]
    """The kind of message that can carry the file."""
    mime_type: str
    """The content type of the file, such as `image/jpeg`."""
    size: int
    """In bytes."""
    filename: str | None
    """The name that came with the upload, without folders and invisible characters, at most its
    last 150 characters; null when there was none."""
    url: str
    """Unguessable. It works until an hour after the file is deleted."""
    created_at: CreatedAt


class MediaAnswer(TypedDict):
    data: Media
    request_id: RequestId


class MediaList(TypedDict):
    data: list[Media]
    """The files on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class MediaDraft(TypedDict):
    file: str
    """The file with its name. Its type is told by its bytes; the content type of the part is
    ignored."""
    team_id: NotRequired[str]
    """Needed only when the organization has several teams."""


class Customer(TypedDict):
    """An end-customer of the platform."""

    id: CustomerId
    object: Literal["customer"]
    """The kind of resource; always `customer`."""
    name: str
    """What you call the customer, from your POST or PATCH."""
    email: str | None
    """From your POST or PATCH; null when none is set."""
    status: CustomerStatus
    metadata: Metadata | None
    archived_at: str | None
    """When it was archived; null unless the status is `archived`."""
    team_id: str
    """The team that the customer, its numbers and their contacts belong to."""
    created_at: CreatedAt
    updated_at: str
    """When name, email, metadata or status last changed."""
    whatsapp_accounts: NotRequired[list[CustomerAccount]]
    """The customer's numbers; only in the answer that fetches one customer."""


class CustomerAccount(TypedDict):
    id: str
    """Internal; paths take `phone_number_id`."""
    phone_number_id: PhoneNumberId | None
    phone_number: PhoneNumber
    name: str | None
    """The verified display name; null while it is not known."""
    status: AccountStatus
    provider_status: str | None
    """The provider's own status of the number; null if it was never fetched."""


class CustomerAnswer(TypedDict):
    data: Customer
    request_id: RequestId


class CustomerList(TypedDict):
    data: list[Customer]
    """The customers on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class CustomerDraft(TypedDict):
    team_id: NotRequired[str]
    """Needed only when the organization has several teams."""
    name: str
    """What you call the customer; 1 to 200 characters, not blank."""
    email: NotRequired[str]
    """For your own use; Parley sends no email to it."""
    metadata: NotRequired[Metadata]


class CustomerPatch(TypedDict):
    name: NotRequired[str]
    """What you call the customer; 1 to 200 characters, not blank."""
    email: NotRequired[str | None]
    """For your own use; null clears it."""
    metadata: NotRequired[Metadata | None]
    """Replaces what is there; null clears it."""
    status: NotRequired[Literal["active", "suspended", "archived"]]
    """`archived` means the same as DELETE; `pending` cannot be set."""


class Disconnection(TypedDict):
    """A number that was disconnected; a job deletes its data."""

    phone_number_id: PhoneNumberId
    object: Literal["whatsapp_account"]
    """The kind of resource; always `whatsapp_account`."""
    disconnected: Literal[True]
    """Always true; a repeated call answers 404."""


class DisconnectionAnswer(TypedDict):
    data: Disconnection
    request_id: RequestId


class SetupLink(TypedDict):
    """A link through which an end-customer connects its own number."""

    id: SetupLinkId
    object: Literal["customer_setup_link"]
    """The kind of resource; always `customer_setup_link`."""
    customer_id: CustomerId
    status: Literal["active", "consumed", "expired", "revoked"]
    """`active` until the link is used, revoked or past `expires_at`; only an active one can be
    changed."""
    token_last4: str
    """The last four characters of the token in `setup_url`, to tell links apart."""
    expires_at: str
    """From this instant on the link cannot be used."""
    consumed_at: str | None
    """When a number was connected through the link; null unless the status is `consumed`."""
    success_redirect_url: str | None
    """After success the person is sent here with `customer_id`, `account_id` and `status=success`
    appended."""
    failure_redirect_url: str | None
    """After a failure the person is sent here with `customer_id`, `status=failed` and `reason`
    appended: cancelled, link_expired, link_revoked, link_consumed, customer_inactive, number_in_use
    or provider_error."""
    created_at: CreatedAt
    setup_url: NotRequired[str]
    """The link itself. Only in the answer that created it, never again."""


class SetupLinkAnswer(TypedDict):
    data: SetupLink
    request_id: RequestId


class SetupLinkList(TypedDict):
    data: list[SetupLink]
    """The setup links on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class SetupLinkDraft(TypedDict):
    success_redirect_url: NotRequired[RedirectUrl]
    failure_redirect_url: NotRequired[RedirectUrl]
    expires_at: NotRequired[str]
    """In the future, at most 30 days ahead; 7 days when left out."""


class SetupLinkPatch(TypedDict):
    success_redirect_url: NotRequired[RedirectUrl]
    failure_redirect_url: NotRequired[RedirectUrl]


class WebhookSubscription(TypedDict):
    """An endpoint of yours and the events that are posted to it."""

    id: WebhookSubscriptionId
    object: Literal["webhook_subscription"]
    """The kind of resource; always `webhook_subscription`."""
    url: str
    """Where the events are posted."""
    description: str | None
    """Your own note; null when there is none."""
    events: list[EventType]
    """The types of events that are posted."""
    status: WebhookSubscriptionStatus
    disabled_reason: str | None
    """Which rule stopped it."""
    consecutive_failures: int
    """Failed attempts since the last success; a new `url` or resuming makes it 0."""
    secrets: list[SigningSecretSummary]
    """The active secrets by id; the plaintext is never listed."""
    phone_number_ids: NotRequired[list[PhoneNumberId]]
    """Only events of these numbers; events that have no number always match. Absent when the
    subscription takes those of every number."""
    created_at: CreatedAt
    updated_at: str
    """When a PATCH last changed it. Deliveries, secrets and being disabled do not count."""
    initial_secret: NotRequired[str]
    """The first signing secret, in plaintext. Only in the answer that created it."""


class WebhookSubscriptionAnswer(TypedDict):
    data: WebhookSubscription
    request_id: RequestId


class WebhookSubscriptionList(TypedDict):
    data: list[WebhookSubscription]
    """The subscriptions on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class WebhookSubscriptionDraft(TypedDict):
    url: WebhookUrl
    events: EventTypes
    description: NotRequired[str | None]
    """Your own note, up to 500 characters."""
    phone_number_ids: NotRequired[list[PhoneNumberId]]
    """Left out, the subscription takes events of every number."""


class WebhookSubscriptionPatch(TypedDict):
    url: NotRequired[WebhookUrl]
    events: NotRequired[EventTypes]
    description: NotRequired[str | None]
    """Your own note, up to 500 characters; null removes it."""
    phone_number_ids: NotRequired[list[PhoneNumberId] | None]
    """Null removes the filter."""
    status: NotRequired[Literal["active", "paused"]]
    """Pauses, resumes, or enables again after Parley disabled it."""
    backlog: NotRequired[Literal["deliver", "discard"]]
    """With `status: active`: what becomes of the events that waited."""


class SigningSecretSummary(TypedDict):
    id: SigningSecretId
    created_at: CreatedAt
    expires_at: str | None
    """From this instant on it signs nothing; null when it has no end."""


class SigningSecret(TypedDict):
    """A new signing secret, with its plaintext."""

    id: SigningSecretId
    object: Literal["signing_secret"]
    """The kind of resource; always `signing_secret`."""
    secret: str
    """The HMAC key is the ASCII of this string as shown. Never shown again."""
    created_at: CreatedAt
    expires_at: str | None
    """Null for a new secret; `expire_current_in` of a later one gives it an end."""


class SigningSecretAnswer(TypedDict):
    data: SigningSecret
    request_id: RequestId


class SigningSecretDraft(TypedDict):
    expire_current_in: NotRequired[int]
    """Seconds after which the secrets that are active now expire; left out, they stay."""


class SubscriptionTestDraft(TypedDict):
    event_type: EventType


class WebhookDelivery(TypedDict):
    """One event for one subscription, and what became of its attempts."""

    id: WebhookDeliveryId
    object: Literal["webhook_delivery"]
    """The kind of resource; always `webhook_delivery`."""
    subscription_id: WebhookSubscriptionId
    event_type: EventType
    event_id: str
    """As `X-Svc-Event-Id` carries it."""
    event_uid: EventId
    """The event's own id, as `X-Svc-Event-Uid` carries it: equal over retries and replays. An
    addition to the interface."""
    status: WebhookDeliveryStatus
    attempt_count: int
    """How many attempts have ended; 0 before the first."""
    last_attempt_at: str | None
    """When the last attempt began; null before the first."""
    next_attempt_at: str | None
    """When the next attempt is due; null after the last. A pause or a failing endpoint delays
    it."""
    response_status: int | None
    """What the endpoint answered."""
    response_body_snippet: str | None
    """The start of the endpoint's last answer, at most 1 KiB; null when it did not answer."""
    duration_ms: int | None
    """How long the last attempt took, in milliseconds; null before the first."""
    replayed_from: WebhookDeliveryId | None
    """The delivery that this one repeats."""
    error_code: NotRequired[WebhookDeliveryErrorCode]
    error_message: NotRequired[str]
    """For people; absent when there was no error."""
    payload: NotRequired[dict[str, Any]]
    """The body as it is posted. Only in the answer that fetches one delivery."""
    created_at: CreatedAt
    attempts: NotRequired[list[WebhookDeliveryAttempt]]
    """Every attempt, oldest first. Only in the answer that fetches one delivery."""


class WebhookDeliveryAttempt(TypedDict):
    attempt: int
    """As `X-Svc-Attempt` carries it."""
    at: str
    """When the attempt began."""
    response_status: int | None
    """The HTTP status of the endpoint's answer; null when it did not answer."""
    response_body_snippet: str | None
    """The start of the endpoint's answer, at most 1 KiB; null when it did not answer."""
    duration_ms: int | None
    """How long the attempt took, in milliseconds."""
    error_code: NotRequired[WebhookDeliveryErrorCode]
    error_message: NotRequired[str]
    """What went wrong and what to do, for people; absent after success."""


class WebhookDeliveryAnswer(TypedDict):
    data: WebhookDelivery
    request_id: RequestId


class WebhookDeliveryList(TypedDict):
    data: list[WebhookDelivery]
    """The deliveries on this page, newest first."""
    has_more: HasMore
    next_cursor: NextCursor
    request_id: RequestId


class BulkReplayDraft(TypedDict):
    """Filters over dead deliveries; left out, they match all."""

    subscription_id: NotRequired[WebhookSubscriptionId]
    event_type: NotRequired[EventType]
    created_after: NotRequired[str]
    """Only deliveries created strictly after this instant."""
    created_before: NotRequired[str]
    """Only deliveries created strictly before this instant."""
    dry_run: NotRequired[bool]
    """Count only."""


class BulkReplay(TypedDict):
    """How many dead deliveries a bulk replay found and repeats."""

    matched: int
    """Dead deliveries that fit the filters, without those of disabled subscriptions."""
    replayed: int
    """0 in a dry run."""


class BulkReplayAnswer(TypedDict):
    data: BulkReplay
    request_id: RequestId


class MessageReceivedEventEntryItemChangesItem(TypedDict):
    field: Literal["messages"]
    """The kind of change; always `messages`."""
    value: ReceivedValue


class MessageReceivedEventEntryItem(TypedDict):
    id: str
    """The provider's id of the business account."""
    changes: list[MessageReceivedEventEntryItemChangesItem]
    """What the update is about; one change with one message."""


class MessageReceivedEvent(TypedDict):
    object: Literal["chat_business_account"]
    """The provider's name for its envelope; always `chat_business_account`."""
    entry: list[MessageReceivedEventEntryItem]
    """The provider's list of updates; Parley puts one message into each event."""
    svc: NotRequired[SvcEnrichment]


class ReceivedValue(TypedDict):
    """The message, its sender and the number that received it."""

    messaging_product: Literal["chat"]
    """The network; always `chat`."""
    metadata: ProviderMetadata
    contacts: NotRequired[list[ProviderContact]]
    """The sender; absent when the provider says nothing about them."""
    messages: list[ReceivedMessage]
    """The message that arrived; one item."""


class ProviderMetadata(TypedDict):
    """The business number of the event."""

    display_phone_number: str
    """The business number in digits, without `+`."""
    phone_number_id: PhoneNumberId
    """The number that received it; use it in the path of the answer you send."""


class ProviderContactProfile(TypedDict):
    """What the person shows to others."""

    name: NotRequired[str]
    """The name that the person chose."""
    username: NotRequired[str]
    """The person's chat username; absent when they have none."""


class ProviderContact(TypedDict):
    profile: NotRequired[ProviderContactProfile]
    """What the person shows to others."""
    wa_id: NotRequired[str]
    """The number in digits; absent when it may not be shown."""
    user_id: NotRequired[str]
    """The BSUID."""
    parent_user_id: NotRequired[str]
    """The parent BSUID."""


# The message that this one answers.
ReceivedMessageContext = TypedDict(
    "ReceivedMessageContext",
    {
        # The sender of the quoted message in digits.
        "from": "NotRequired[str]",
        # The provider message id that is quoted.
        "id": "NotRequired[str]",
        # True when the sender forwarded the message.
        "forwarded": "NotRequired[bool]",
        # True when the message has been forwarded many times.
        "frequently_forwarded": "NotRequired[bool]",
    },
)


class ReceivedMessageReaction(TypedDict):
    """A reaction to an earlier message."""

    message_id: str
    """The message that is reacted to."""
    emoji: NotRequired[str]
    """Empty when the reaction was removed."""


class ReceivedMessageUnsupported(TypedDict):
    """What could not be passed on; only with the type `unsupported`."""

    type: NotRequired[str]
    """What it was, such as `edit` or `unknown`; further values may appear."""


ReceivedMessage = TypedDict(
    "ReceivedMessage",
    {
        # The sender in digits; absent when it may not be shown.
        "from": "NotRequired[str]",
        # The sender's BSUID.
        "from_user_id": "NotRequired[str]",
        # The provider message id; `context`, `reaction` and read receipts take it.
        "id": "str",
        # Unix seconds.
        "timestamp": "str",
        # The kind of message; the field of that name holds the content.
        "type": "str",
        # The message that this one answers.
        "context": "NotRequired[ReceivedMessageContext]",
        "text": "NotRequired[MessageText]",
        "image": "NotRequired[MessageFile]",
        "document": "NotRequired[MessageFile]",
        "video": "NotRequired[MessageFile]",
        "audio": "NotRequired[MessageFile]",
        "sticker": "NotRequired[MessageFile]",
        "location": "NotRequired[MessageLocation]",
        # The contact cards of a message of type `contacts`.
        "contacts": "NotRequired[list[MessageContactCard]]",
        "interactive": "NotRequired[MessageInteractive]",
        "button": "NotRequired[MessageButton]",
        # A reaction to an earlier message.
        "reaction": "NotRequired[ReceivedMessageReaction]",
        # What could not be passed on; only with the type `unsupported`.
        "unsupported": "NotRequired[ReceivedMessageUnsupported]",
        # Why the provider could not pass on the content or its file; absent without a fault.
        "errors": "NotRequired[list[ProviderError]]",
    },
)


class SvcEnrichmentConversation(TypedDict):
    """The state of the conversation after this message."""

    status: ConversationStatus
    assigned_to: str | None
    """The id of the assigned user; null when no user is assigned."""


class SvcEnrichmentContact(TypedDict):
    """The sender as Parley knows them."""

    name: str | None
    """What people call the contact; null while no name is known."""
    phone_number: PhoneNumber


class SvcEnrichment(TypedDict):
    """What Parley knows about the message."""

    conversation_id: ConversationId
    contact_id: ContactId
    message_id: MessageId
    phone_number_id: PhoneNumberId
    labels: list[LabelSummary]
    """The labels of the conversation."""
    conversation: SvcEnrichmentConversation
    """The state of the conversation after this message."""
    contact: SvcEnrichmentContact
    """The sender as Parley knows them."""
    media_url: str | None
    """The permanent hosted copy; null without media, or when it could not be stored in time."""
    media_status: MediaReady | None
    """`ready` when `media_url` is set."""


class MessageStatusEventEntryItemChangesItem(TypedDict):
    field: Literal["messages"]
    """The kind of change; always `messages`."""
    value: StatusValue


class MessageStatusEventEntryItem(TypedDict):
    id: str
    """The provider's id of the business account."""
    changes: list[MessageStatusEventEntryItemChangesItem]
    """What the update is about; one change with one status."""


class MessageStatusEvent(TypedDict):
    object: Literal["chat_business_account"]
    """The provider's name for its envelope; always `chat_business_account`."""
    entry: list[MessageStatusEventEntryItem]
    """The provider's list of updates; Parley puts one status into each event."""


class StatusValue(TypedDict):
    """The new status of a message, and the number that sent it."""

    messaging_product: Literal["chat"]
    """The network; always `chat`."""
    metadata: ProviderMetadata
    contacts: NotRequired[list[ProviderContact]]
    """The recipient; absent when the provider says nothing about them."""
    statuses: list[StatusUpdate]
    """What happened to the message; one item."""


class StatusUpdateConversationOrigin(TypedDict):
    """What began the billing period."""

    type: NotRequired[str]
    """The provider's word for what began it, such as `service` or `marketing`."""


class StatusUpdateConversation(TypedDict):
    """The provider's billing period with the recipient, not a `cnv_` conversation; often absent."""

    id: NotRequired[str]
    """The provider's id of the billing period."""
    origin: NotRequired[StatusUpdateConversationOrigin]
    """What began the billing period."""
    expiration_timestamp: NotRequired[str]
    """When the billing period ends, in Unix seconds; absent with most statuses."""


class StatusUpdatePricing(TypedDict):
    """How the provider charges for the message; absent with some statuses."""

    billable: NotRequired[bool]
    """Whether the provider charges for the message."""
    type: NotRequired[str]
    """Whether it has the regular price or is free, in the provider's words."""
    category: NotRequired[str]
    """Which of the provider's rates applies, such as `marketing` or `utility`."""
    pricing_model: NotRequired[str]
    """The provider's name for its way of charging."""


class StatusUpdate(TypedDict):
    id: str
    """The provider message id, or the `msg_` id of a message that failed before the provider took
    it."""
    status: Literal["sent", "delivered", "read", "failed", "played"]
    """What happened. `played` means that a voice note was played for the first time."""
    timestamp: str
    """Unix seconds."""
    recipient_id: NotRequired[str]
    """The recipient in digits; absent when it may not be shown."""
    recipient_user_id: NotRequired[str]
    """The recipient's BSUID."""
    conversation: NotRequired[StatusUpdateConversation]
    """The provider's billing period with the recipient, not a `cnv_` conversation; often absent."""
    pricing: NotRequired[StatusUpdatePricing]
    """How the provider charges for the message; absent with some statuses."""
    errors: NotRequired[list[ProviderError]]
    """Only with `failed`."""


class ProviderErrorErrorData(TypedDict):
    """More about the error."""

    details: NotRequired[str]
    """The cause in a sentence, for people."""


class ProviderError(TypedDict):
    code: int
    """The provider's number; -1 for a refusal by Parley."""
    title: NotRequired[str]
    """The error in a few words."""
    message: NotRequired[str]
    """For people; often the same as `title`."""
    error_data: NotRequired[ProviderErrorErrorData]
    """More about the error."""
    fbtrace_id: NotRequired[str]
    """The provider's id of the failed call, for its support; absent when it gives none."""
    error_subcode: NotRequired[int]
    """The provider's finer number below `code`; absent when it gives none."""
    href: NotRequired[str]
    """The provider's page about the error; absent when it gives none."""


class MessageSentEvent(TypedDict):
    id: str
    """`<msg_id>:sent`; `broadcast_msg:<internal id>:sent` for a broadcast."""
    type: Literal["message.sent"]
    """The type of the event; always `message.sent`."""
    created_at: EventTime
    data: MessageSentData


class MessageSentDataConversation(TypedDict):
    """The conversation that the message is part of."""

    id: ConversationId
    status: ConversationStatus


class MessageSentDataProviderMeta(TypedDict):
    """The number that the message was sent from, and through which interface."""

    phone_number_id: PhoneNumberId
    display_phone_number: str | None
    """The business number in digits, without `+`; null while it is not known."""
    provider: str
    """The provider's interface, such as `cloud`."""


class MessageSentData(TypedDict):
    """The message that the provider took, its conversation and its recipient."""

    session: PhoneNumberId
    direction: Literal["outbound"]
    """Always `outbound`."""
    from_me: bool
    """Always true: the business sent it."""
    timestamp: str
    """When the provider took the message."""
    message: SentMessage
    conversation: MessageSentDataConversation
    """The conversation that the message is part of."""
    contact: ConversationContact
    provider_meta: MessageSentDataProviderMeta
    """The number that the message was sent from, and through which interface."""


# The message as it was sent.
SentMessage = TypedDict(
    "SentMessage",
    {
        "id": "MessageId",
        # The provider message id; `context`, `reaction` and status events name the message by it.
        "provider_id": "str",
        "type": "MessageType",
        # The text or caption; null when there is none.
        "body": "str | None",
        "from": "PhoneNumber",
        "to": "PhoneNumber",
        "status": "MessageStatus",
        # Where the send came from.
        "source": "str",
        # The message that it quotes.
        "reply_to_provider_id": "str | None",
        # Only with media.
        "media_url": "NotRequired[str | None]",
        # Only with media.
        "media_status": "NotRequired[MediaReady | None]",
        "image": "NotRequired[SentFile]",
        "document": "NotRequired[SentFile]",
        "video": "NotRequired[SentFile]",
        "audio": "NotRequired[SentFile]",
        "sticker": "NotRequired[SentFile]",
    },
)


class SentFile(TypedDict):
    """The file of a media message; the field has the name of the message's type."""

    link: str | None
    """Where the file is: your link, or the hosted copy. Null when Parley has no address of it."""
    caption: str | None
    """The text below the file; null when there is none."""


class MessageRevokedEventData(TypedDict):
    """The message that was deleted, and when."""

    message_id: MessageId
    provider_id: str
    """The provider message id of the deleted message."""
    conversation_id: ConversationId
    contact_id: ContactId
    contact_phone_number: PhoneNumber
    phone_number_id: PhoneNumberId
    display_phone_number: str | None
    """The business number in digits, without `+`; null while it is not known."""
    revoked_at: str
    """When the contact deleted the message, by the provider's clock."""


class MessageRevokedEvent(TypedDict):
    id: EventId
    type: Literal["message.revoked"]
    """The type of the event; always `message.revoked`."""
    created_at: EventTime
    data: MessageRevokedEventData
    """The message that was deleted, and when."""


class MessageEditedEventDataEditHistoryItem(TypedDict):
    content: str | None
    """The text or caption after that edit; null when it had none."""
    edited_at: str
    """When the contact made that edit, by the provider's clock."""


class MessageEditedEventData(TypedDict):
    """The message that was edited, with its text before and after."""

    message_id: MessageId
    provider_id: str
    """The provider message id of the edited message."""
    conversation_id: ConversationId
    contact_id: ContactId
    contact_phone_number: PhoneNumber
    phone_number_id: PhoneNumberId
    display_phone_number: str | None
    """The business number in digits, without `+`; null while it is not known."""
    new_content: str | None
    """The text or caption after this edit; null when it has none."""
    original_content: str | None
    """The first version; never overwritten."""
    edited_at: str
    """When the contact made this edit, by the provider's clock."""
    edit_history: list[MessageEditedEventDataEditHistoryItem]
    """All edits of the message that are known, this one included, oldest first."""


class MessageEditedEvent(TypedDict):
    id: EventId
    type: Literal["message.edited"]
    """The type of the event; always `message.edited`."""
    created_at: EventTime
    data: MessageEditedEventData
    """The message that was edited, with its text before and after."""


class ConversationAssignedEventDataConversation(TypedDict):
    """The conversation in short."""

    id: ConversationId
    object: Literal["conversation"]
    """The kind of resource; always `conversation`."""
    status: ConversationStatus
    phone_number_id: PhoneNumberId


class ConversationAssignedEventDataAssignee(TypedDict):
    """The user that is assigned now, and the one before. The ids have no prefix."""

    user_id: str | None
    """Null when the assignment was taken back."""
    team_id: str
    """The team of the conversation."""
    previous_user_id: str | None
    """The user that was assigned before; null when none was."""


class ConversationAssignedEventData(TypedDict):
    """The conversation, and its assignee before and after."""

    conversation: ConversationAssignedEventDataConversation
    """The conversation in short."""
    assignee: ConversationAssignedEventDataAssignee
    """The user that is assigned now, and the one before. The ids have no prefix."""


class ConversationAssignedEvent(TypedDict):
    id: EventId
    type: Literal["conversation.assigned"]
    """The type of the event; always `conversation.assigned`."""
    created_at: EventTime
    data: ConversationAssignedEventData
    """The conversation, and its assignee before and after."""


class ConversationClosedEventDataConversation(TypedDict):
    """The conversation in short, and who resolved it."""

    id: ConversationId
    object: Literal["conversation"]
    """The kind of resource; always `conversation`."""
    status: Literal["resolved"]
    """Always `resolved`."""
    closed_by_user_id: str | None
    """Null when an API key did it."""
    phone_number_id: PhoneNumberId


class ConversationClosedEventData(TypedDict):
    """The conversation that was resolved."""

    conversation: ConversationClosedEventDataConversation
    """The conversation in short, and who resolved it."""


class ConversationClosedEvent(TypedDict):
    id: EventId
    type: Literal["conversation.closed"]
    """The type of the event; always `conversation.closed`."""
    created_at: EventTime
    data: ConversationClosedEventData
    """The conversation that was resolved."""


class EventContact(TypedDict):
    """A contact as events carry it."""

    id: ContactId
    object: Literal["contact"]
    """The kind of resource; always `contact`."""
    phone_number: PhoneNumber
    name: str | None
    """What people call the contact; null while no name is known."""
    email: str | None
    """From your POST or PATCH; null when none is set."""
    metadata: Metadata | None
    phone_number_id: PhoneNumberId
    created_at: CreatedAt
    updated_at: str
    """When a field of the contact last changed, or a label was attached or detached."""


class ContactCreatedEventData(TypedDict):
    """The contact as it was created."""

    contact: EventContact


class ContactCreatedEvent(TypedDict):
    id: EventId
    type: Literal["contact.created"]
    """The type of the event; always `contact.created`."""
    created_at: EventTime
    data: ContactCreatedEventData
    """The contact as it was created."""


class ContactUpdatedEventData(TypedDict):
    """The contact after the change, and what changed."""

    contact: EventContact
    changed_fields: list[Literal["name", "email", "labels", "metadata"]]
    """What changed; at least one."""


class ContactUpdatedEvent(TypedDict):
    id: EventId
    type: Literal["contact.updated"]
    """The type of the event; always `contact.updated`."""
    created_at: EventTime
    data: ContactUpdatedEventData
    """The contact after the change, and what changed."""


class ContactIdentityUpdatedEventDataPrevious(TypedDict):
    """What the contact was known by before."""

    phone_number: PhoneNumber
    bsuid: str | None
    """The business-scoped user id before; null when none was known."""
    parent_bsuid: str | None
    """The parent BSUID before; null when none was known."""
    username: str | None
    """The chat username before; null when none was known."""


class ContactIdentityUpdatedEventData(TypedDict):
    """The contact after the change, and what it was known by before."""

    contact: EventContact
    previous: ContactIdentityUpdatedEventDataPrevious
    """What the contact was known by before."""
    changed_fields: list[Literal["phone_number", "bsuid", "parent_bsuid", "username"]]
    """Which identifiers differ from `previous`."""
    reason: str
    """Why it changed, in a word, for example that the person has a new number. Further values may
    appear."""


class ContactIdentityUpdatedEvent(TypedDict):
    id: EventId
    type: Literal["contact.identity_updated"]
    """The type of the event; always `contact.identity_updated`."""
    created_at: EventTime
    data: ContactIdentityUpdatedEventData
    """The contact after the change, and what it was known by before."""


class CustomerCreatedEventData(TypedDict):
    """The customer as it was created."""

    customer: Customer


class CustomerCreatedEvent(TypedDict):
    id: EventId
    type: Literal["customer.created"]
    """The type of the event; always `customer.created`."""
    created_at: EventTime
    data: CustomerCreatedEventData
    """The customer as it was created."""


class CustomerUpdatedEventData(TypedDict):
    """The customer after the change."""

    customer: Customer


class CustomerUpdatedEvent(TypedDict):
    id: EventId
    type: Literal["customer.updated"]
    """The type of the event; always `customer.updated`."""
    created_at: EventTime
    data: CustomerUpdatedEventData
    """The customer after the change."""


class CustomerArchivedEventData(TypedDict):
    """The customer, now archived."""

    customer: Customer


class CustomerArchivedEvent(TypedDict):
    id: EventId
    type: Literal["customer.archived"]
    """The type of the event; always `customer.archived`."""
    created_at: EventTime
    data: CustomerArchivedEventData
    """The customer, now archived."""


class CustomerOnboardedEventData(TypedDict):
    """The customer, and the number that it connected."""

    customer_id: CustomerId
    account_id: str
    """Internal; not used for sending."""
    phone_number_id: PhoneNumberId
    """Use it in send paths."""
    phone_number: str
    """Formatted for display."""


class CustomerOnboardedEvent(TypedDict):
    id: EventId
    type: Literal["customer.onboarded"]
    """The type of the event; always `customer.onboarded`."""
    created_at: EventTime
    data: CustomerOnboardedEventData
    """The customer, and the number that it connected."""


class CustomerSetupLinkCreatedEventData(TypedDict):
    """The customer, and its new link without `setup_url`."""

    customer_id: CustomerId
    setup_link: SetupLink


class CustomerSetupLinkCreatedEvent(TypedDict):
    id: EventId
    type: Literal["customer.setup_link.created"]
    """The type of the event; always `customer.setup_link.created`."""
    created_at: EventTime
    data: CustomerSetupLinkCreatedEventData
    """The customer, and its new link without `setup_url`."""


class CustomerSetupLinkConsumedEventData(TypedDict):
    """The customer, the link that it used, and the account that it connected."""

    customer_id: CustomerId
    setup_link: SetupLink
    account_id: str
    """The account that was connected. Internal; not used for sending."""


class CustomerSetupLinkConsumedEvent(TypedDict):
    id: EventId
    type: Literal["customer.setup_link.consumed"]
    """The type of the event; always `customer.setup_link.consumed`."""
    created_at: EventTime
    data: CustomerSetupLinkConsumedEventData
    """The customer, the link that it used, and the account that it connected."""


# A message to send. `type` names the object that carries the content.
MessageDraft: TypeAlias = (
    SendText
    | SendImage
    | SendDocument
    | SendVideo
    | SendAudio
    | SendTemplate
    | SendInteractive
    | SendReaction
)

# A message to send, or a read receipt.
SendBody: TypeAlias = MessageDraft | ReadReceipt

# The language code, alone or as `code`.
TemplateLanguage: TypeAlias = str | TemplateLanguageObject

# A number, or a number as text.
Coordinate: TypeAlias = float | str
