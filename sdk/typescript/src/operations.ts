// Made by `make clients-write` from openapi/openapi.yaml; do not edit.

import { Core, List, type RequestOptions, type Upload } from "./core.js";
import type * as types from "./types.js";

/** One method for each operation of the contract. */
export class Operations extends Core {
  /** Is the process alive. */
  getHealth(options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.Health> {
    return this.request("GET", ["health"], options);
  }

  /** The calling key. */
  getMe(options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.ApiKeyAnswer> {
    return this.request("GET", ["me"], options);
  }

  /** This document. */
  getOpenApi(options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.OpenApiDocument> {
    return this.request("GET", ["openapi.json"], options);
  }

  /** List business numbers. */
  listAccounts(
    query: NonNullable<types.ListAccountsData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.Account, types.AccountList> {
    return new List(this, ["accounts"], query, options);
  }

  /** Register a number with its PIN. */
  registerNumber(
    phoneNumberId: string,
    body: types.NumberRegistrationDraft,
    options: RequestOptions = {},
  ): Promise<types.NumberRegistrationAnswer> {
    return this.request("POST", [phoneNumberId, "register"], { body, ...options });
  }

  /** List messages. */
  listMessages(
    phoneNumberId: string,
    query: NonNullable<types.ListMessagesData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.Message, types.MessageList> {
    return new List(this, [phoneNumberId, "messages"], query, options);
  }

  /** Send a message, or mark an inbound one read. */
  sendMessage(phoneNumberId: string, body: types.SendBody, options: RequestOptions = {}): Promise<types.MessageAnswer> {
    return this.request("POST", [phoneNumberId, "messages"], { body, ...options });
  }

  /** Check a message without sending it. */
  validateMessage(
    phoneNumberId: string,
    body: types.MessageDraft,
    options: RequestOptions = {},
  ): Promise<types.MessageValidationAnswer> {
    return this.request("POST", [phoneNumberId, "messages", "validate"], { body, ...options });
  }

  /** Fetch a message. */
  getMessage(
    phoneNumberId: string,
    id: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.MessageAnswer> {
    return this.request("GET", [phoneNumberId, "messages", id], options);
  }

  /** Where the media of a message is. */
  getMessageMedia(
    phoneNumberId: string,
    id: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<string> {
    return this.location("GET", [phoneNumberId, "messages", id, "media"], options);
  }

  /** What happened to a message. */
  getMessageTimeline(
    phoneNumberId: string,
    id: string,
    query: NonNullable<types.GetMessageTimelineData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.TimelineEntry, types.TimelineEntryList> {
    return new List(this, [phoneNumberId, "messages", id, "timeline"], query, options);
  }

  /** List templates. */
  listTemplates(
    phoneNumberId: string,
    query: NonNullable<types.ListTemplatesData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.Template, types.TemplateList> {
    return new List(this, [phoneNumberId, "templates"], query, options);
  }

  /** Submit a template for review. */
  createTemplate(
    phoneNumberId: string,
    body: types.TemplateDraft,
    options: RequestOptions = {},
  ): Promise<types.TemplateAnswer> {
    return this.request("POST", [phoneNumberId, "templates"], { body, ...options });
  }

  /** Refresh templates from the provider. */
  syncTemplates(phoneNumberId: string, options: RequestOptions = {}): Promise<types.TemplateSyncAnswer> {
    return this.request("POST", [phoneNumberId, "templates", "sync"], options);
  }

  /** Fetch a template by name. */
  getTemplate(
    phoneNumberId: string,
    name: string,
    query: NonNullable<types.GetTemplateData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.TemplateAnswer> {
    return this.request("GET", [phoneNumberId, "templates", name], { query, ...options });
  }

  /** Edit a template and submit it again. */
  updateTemplate(
    phoneNumberId: string,
    name: string,
    body: types.TemplatePatch,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.TemplateAnswer> {
    return this.request("PATCH", [phoneNumberId, "templates", name], { body, ...options });
  }

  /** List conversations. */
  listConversations(
    phoneNumberId: string,
    query: NonNullable<types.ListConversationsData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.Conversation, types.ConversationList> {
    return new List(this, [phoneNumberId, "conversations"], query, options);
  }

  /** Fetch a conversation. */
  getConversation(
    phoneNumberId: string,
    id: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.ConversationAnswer> {
    return this.request("GET", [phoneNumberId, "conversations", id], options);
  }

  /** Set the status or the assignee. */
  updateConversation(
    phoneNumberId: string,
    id: string,
    body: types.ConversationPatch,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.ConversationAnswer> {
    return this.request("PATCH", [phoneNumberId, "conversations", id], { body, ...options });
  }

  /** Attach a label to a conversation. */
  attachConversationLabel(
    phoneNumberId: string,
    id: string,
    body: types.LabelAttachment,
    options: RequestOptions = {},
  ): Promise<types.ConversationLabelAnswer> {
    return this.request("POST", [phoneNumberId, "conversations", id, "labels"], { body, ...options });
  }

  /** Detach a label from a conversation. */
  detachConversationLabel(
    phoneNumberId: string,
    id: string,
    labelId: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.ConversationLabelAnswer> {
    return this.request("DELETE", [phoneNumberId, "conversations", id, "labels", labelId], options);
  }

  /** List contacts. */
  listContacts(
    phoneNumberId: string,
    query: NonNullable<types.ListContactsData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.Contact, types.ContactList> {
    return new List(this, [phoneNumberId, "contacts"], query, options);
  }

  /** Create a contact. */
  createContact(
    phoneNumberId: string,
    body: types.ContactDraft,
    options: RequestOptions = {},
  ): Promise<types.ContactAnswer> {
    return this.request("POST", [phoneNumberId, "contacts"], { body, ...options });
  }

  /** Attach or detach a label on many contacts. */
  bulkLabelContacts(
    phoneNumberId: string,
    body: types.BulkLabelDraft,
    options: RequestOptions = {},
  ): Promise<types.BulkLabelAnswer> {
    return this.request("POST", [phoneNumberId, "contacts", "bulk_label"], { body, ...options });
  }

  /** Fetch a contact. */
  getContact(
    phoneNumberId: string,
    id: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.ContactAnswer> {
    return this.request("GET", [phoneNumberId, "contacts", id], options);
  }

  /** Change a contact. */
  updateContact(
    phoneNumberId: string,
    id: string,
    body: types.ContactPatch,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.ContactAnswer> {
    return this.request("PATCH", [phoneNumberId, "contacts", id], { body, ...options });
  }

  /** Delete a contact. */
  deleteContact(
    phoneNumberId: string,
    id: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.DeletionAnswer> {
    return this.request("DELETE", [phoneNumberId, "contacts", id], options);
  }

  /** Attach a label to a contact. */
  attachContactLabel(
    phoneNumberId: string,
    id: string,
    body: types.LabelAttachment,
    options: RequestOptions = {},
  ): Promise<types.ContactLabelAnswer> {
    return this.request("POST", [phoneNumberId, "contacts", id, "labels"], { body, ...options });
  }

  /** Detach a label from a contact. */
  detachContactLabel(
    phoneNumberId: string,
    id: string,
    labelId: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.ContactLabelAnswer> {
    return this.request("DELETE", [phoneNumberId, "contacts", id, "labels", labelId], options);
  }

  /** List labels. */
  listLabels(
    query: NonNullable<types.ListLabelsData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.Label, types.LabelList> {
    return new List(this, ["labels"], query, options);
  }

  /** Create a label. */
  createLabel(body: types.LabelDraft, options: RequestOptions = {}): Promise<types.LabelAnswer> {
    return this.request("POST", ["labels"], { body, ...options });
  }

  /** Fetch a label. */
  getLabel(id: string, options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.LabelAnswer> {
    return this.request("GET", ["labels", id], options);
  }

  /** Rename or recolor a label. */
  updateLabel(
    id: string,
    body: types.LabelPatch,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.LabelAnswer> {
    return this.request("PATCH", ["labels", id], { body, ...options });
  }

  /** Delete a label. */
  deleteLabel(id: string, options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.DeletionAnswer> {
    return this.request("DELETE", ["labels", id], options);
  }

  /** List library files. */
  listMedia(
    query: NonNullable<types.ListMediaData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.Media, types.MediaList> {
    return new List(this, ["media"], query, options);
  }

  /** Upload a file to the library. */
  createMedia(body: Upload, options: RequestOptions = {}): Promise<types.MediaAnswer> {
    return this.request("POST", ["media"], { body, ...options });
  }

  /** Fetch a library file. */
  getMedia(id: string, options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.MediaAnswer> {
    return this.request("GET", ["media", id], options);
  }

  /** Delete a library file. */
  deleteMedia(id: string, options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.DeletionAnswer> {
    return this.request("DELETE", ["media", id], options);
  }

  /** List end-customers. */
  listCustomers(
    query: NonNullable<types.ListCustomersData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.Customer, types.CustomerList> {
    return new List(this, ["customers"], query, options);
  }

  /** Create an end-customer. */
  createCustomer(body: types.CustomerDraft, options: RequestOptions = {}): Promise<types.CustomerAnswer> {
    return this.request("POST", ["customers"], { body, ...options });
  }

  /** Fetch an end-customer. */
  getCustomer(id: string, options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.CustomerAnswer> {
    return this.request("GET", ["customers", id], options);
  }

  /** Change, suspend or resume an end-customer. */
  updateCustomer(
    id: string,
    body: types.CustomerPatch,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.CustomerAnswer> {
    return this.request("PATCH", ["customers", id], { body, ...options });
  }

  /** Archive an end-customer. */
  archiveCustomer(id: string, options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.CustomerAnswer> {
    return this.request("DELETE", ["customers", id], options);
  }

  /** List the setup links of a customer. */
  listSetupLinks(
    id: string,
    query: NonNullable<types.ListSetupLinksData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.SetupLink, types.SetupLinkList> {
    return new List(this, ["customers", id, "setup_links"], query, options);
  }

  /** Generate a setup link. */
  createSetupLink(
    id: string,
    body?: types.SetupLinkDraft,
    options: RequestOptions = {},
  ): Promise<types.SetupLinkAnswer> {
    return this.request("POST", ["customers", id, "setup_links"], { body, ...options });
  }

  /** Fetch a setup link. */
  getSetupLink(
    id: string,
    linkId: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.SetupLinkAnswer> {
    return this.request("GET", ["customers", id, "setup_links", linkId], options);
  }

  /** Change the redirects of a setup link. */
  updateSetupLink(
    id: string,
    linkId: string,
    body: types.SetupLinkPatch,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.SetupLinkAnswer> {
    return this.request("PATCH", ["customers", id, "setup_links", linkId], { body, ...options });
  }

  /** Revoke a setup link. */
  revokeSetupLink(
    id: string,
    linkId: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.SetupLinkAnswer> {
    return this.request("DELETE", ["customers", id, "setup_links", linkId], options);
  }

  /** Disconnect a number of an end-customer. */
  disconnectAccount(
    id: string,
    phoneNumberId: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.DisconnectionAnswer> {
    return this.request("DELETE", ["customers", id, "whatsapp_accounts", phoneNumberId], options);
  }

  /** List webhook subscriptions. */
  listSubscriptions(
    query: NonNullable<types.ListSubscriptionsData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.WebhookSubscription, types.WebhookSubscriptionList> {
    return new List(this, ["webhook_subscriptions"], query, options);
  }

  /** Subscribe an endpoint to events. */
  createSubscription(
    body: types.WebhookSubscriptionDraft,
    options: RequestOptions = {},
  ): Promise<types.WebhookSubscriptionAnswer> {
    return this.request("POST", ["webhook_subscriptions"], { body, ...options });
  }

  /** Fetch a webhook subscription. */
  getSubscription(
    id: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.WebhookSubscriptionAnswer> {
    return this.request("GET", ["webhook_subscriptions", id], options);
  }

  /** Change, pause or resume a webhook subscription. */
  updateSubscription(
    id: string,
    body: types.WebhookSubscriptionPatch,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.WebhookSubscriptionAnswer> {
    return this.request("PATCH", ["webhook_subscriptions", id], { body, ...options });
  }

  /** Delete a webhook subscription. */
  deleteSubscription(id: string, options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.DeletionAnswer> {
    return this.request("DELETE", ["webhook_subscriptions", id], options);
  }

  /** Mint another signing secret. */
  mintSecret(
    id: string,
    body?: types.SigningSecretDraft,
    options: RequestOptions = {},
  ): Promise<types.SigningSecretAnswer> {
    return this.request("POST", ["webhook_subscriptions", id, "secrets"], { body, ...options });
  }

  /** Revoke a signing secret. */
  revokeSecret(
    id: string,
    secretId: string,
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): Promise<types.DeletionAnswer> {
    return this.request("DELETE", ["webhook_subscriptions", id, "secrets", secretId], options);
  }

  /** Send an example event to the endpoint. */
  testSubscription(
    id: string,
    body: types.SubscriptionTestDraft,
    options: RequestOptions = {},
  ): Promise<types.WebhookDeliveryAnswer> {
    return this.request("POST", ["webhook_subscriptions", id, "test"], { body, ...options });
  }

  /** List webhook deliveries. */
  listDeliveries(
    query: NonNullable<types.ListDeliveriesData["query"]> = {},
    options: Omit<RequestOptions, "idempotencyKey"> = {},
  ): List<types.WebhookDelivery, types.WebhookDeliveryList> {
    return new List(this, ["webhook_deliveries"], query, options);
  }

  /** Replay dead deliveries in bulk. */
  replayDeliveries(body?: types.BulkReplayDraft, options: RequestOptions = {}): Promise<types.BulkReplayAnswer> {
    return this.request("POST", ["webhook_deliveries", "replay"], { body, ...options });
  }

  /** Fetch a webhook delivery. */
  getDelivery(id: string, options: Omit<RequestOptions, "idempotencyKey"> = {}): Promise<types.WebhookDeliveryAnswer> {
    return this.request("GET", ["webhook_deliveries", id], options);
  }

  /** Replay one webhook delivery. */
  replayDelivery(id: string, options: RequestOptions = {}): Promise<types.WebhookDeliveryAnswer> {
    return this.request("POST", ["webhook_deliveries", id, "replay"], options);
  }
}

/** The body of each event, by its type. */
export interface EventBodies {
  "message.received": types.MessageReceivedEvent;
  "message.status": types.MessageStatusEvent;
  "message.sent": types.MessageSentEvent;
  "message.revoked": types.MessageRevokedEvent;
  "message.edited": types.MessageEditedEvent;
  "conversation.assigned": types.ConversationAssignedEvent;
  "conversation.closed": types.ConversationClosedEvent;
  "contact.created": types.ContactCreatedEvent;
  "contact.updated": types.ContactUpdatedEvent;
  "contact.identity_updated": types.ContactIdentityUpdatedEvent;
  "customer.created": types.CustomerCreatedEvent;
  "customer.updated": types.CustomerUpdatedEvent;
  "customer.archived": types.CustomerArchivedEvent;
  "customer.onboarded": types.CustomerOnboardedEvent;
  "customer.setup_link.created": types.CustomerSetupLinkCreatedEvent;
  "customer.setup_link.consumed": types.CustomerSetupLinkConsumedEvent;
}
