import type { ErrorType } from "./types.js";

/** The base of all errors of this SDK. */
export class ParleyError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No whole answer came: the connection failed, was cut, or timed out. `cause` says why. */
export class NetworkError extends ParleyError {}

/** A request could not be made of what was given. Nothing was sent. */
export class ArgumentError extends ParleyError {}

interface Refusal {
  type: ErrorType;
  code?: string;
  message?: string;
  param?: string;
  request_id?: string;
}

/** The API answered with an error. Branch on `code`; docs/errors.md lists the codes. */
export class APIError extends ParleyError {
  readonly type: ErrorType;
  /** Empty when the answer is not one of Parley's. */
  readonly code: string;
  readonly param: string | undefined;
  readonly requestId: string | undefined;

  constructor(
    readonly status: number,
    refusal: Refusal,
    /** In seconds. */
    readonly retryAfter?: number,
  ) {
    super(refusal.message ?? "");
    this.type = refusal.type;
    this.code = refusal.code ?? "";
    this.param = refusal.param;
    this.requestId = refusal.request_id;
  }
}

/** The request is wrong; `param` says where. */
export class InvalidRequestError extends APIError {}
/** The key is missing, unknown, revoked or expired. */
export class AuthenticationError extends APIError {}
/** The plan, the subscription or the state of the organization does not allow it. */
export class PermissionDeniedError extends APIError {}
/** There is no such resource in the organization. */
export class NotFoundError extends APIError {}
/** The state of the resource does not allow it now. */
export class ConflictError extends APIError {}
/** Requests come faster than the plan allows. */
export class RateLimitError extends APIError {}
/** A fault of the API or of the network behind it. */
export class ServerError extends APIError {}

const classes = new Map<ErrorType, typeof APIError>([
  ["invalid_request_error", InvalidRequestError],
  ["authentication_error", AuthenticationError],
  ["permission_error", PermissionDeniedError],
  ["not_found", NotFoundError],
  ["conflict", ConflictError],
  ["rate_limit_error", RateLimitError],
  ["api_error", ServerError],
]);
const types = new Map<number, ErrorType>([
  [401, "authentication_error"],
  [402, "permission_error"],
  [403, "permission_error"],
  [404, "not_found"],
  [409, "conflict"],
  [429, "rate_limit_error"],
]);

/** The error of an answer. One that is not Parley's, as of a proxy, gets its type by the status. */
export function fromAnswer(status: number, body: string, retryAfter: number | undefined): APIError {
  let refusal: Refusal | undefined;
  try {
    refusal = (JSON.parse(body) as { error?: Refusal } | null)?.error;
  } catch {
    // It is not JSON.
  }
  if (refusal === undefined || !classes.has(refusal.type)) {
    const fallback = status >= 400 && status < 500 ? "invalid_request_error" : "api_error";
    refusal = { type: types.get(status) ?? fallback, message: `HTTP ${status}, not an answer of Parley` };
  }
  const found = classes.get(refusal.type) ?? APIError;
  return new found(status, refusal, retryAfter);
}
