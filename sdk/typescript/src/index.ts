import { Operations } from "./operations.js";

/** The client: one method for each operation of the contract. */
export class Parley extends Operations {}

export { List, VERSION } from "./core.js";
export type { Page, Query, RequestOptions, Settings, Upload } from "./core.js";
export {
  APIError,
  ArgumentError,
  AuthenticationError,
  ConflictError,
  InvalidRequestError,
  NetworkError,
  NotFoundError,
  ParleyError,
  PermissionDeniedError,
  RateLimitError,
  ServerError,
} from "./errors.js";
export type { EventBodies } from "./operations.js";
export type * as types from "./types.js";
export { WebhookError, verifyWebhook } from "./webhooks.js";
export type { VerifyOptions, WebhookErrorKind, WebhookEvent, WebhookHeaders } from "./webhooks.js";
