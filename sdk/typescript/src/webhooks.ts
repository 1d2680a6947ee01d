import { ParleyError } from "./errors.js";
import type { EventBodies } from "./operations.js";

const texts = {
  no_secret: "No secret was given, or an empty one.",
  missing_header: "The request has no X-Svc-Signature.",
  malformed_header: "X-Svc-Signature has not the form t=<unix seconds>,v1=<hex>.",
  bad_timestamp: "The time in X-Svc-Signature is not a number of seconds.",
  too_old: "The signature is older than the tolerance: an old delivery, or a wrong clock here.",
  in_the_future: "The signature's time is later than now: the clock here is wrong.",
  no_match: "No signature matches: another secret, a changed body, or a forgery.",
  malformed_body: "The body is not JSON.",
};

export type WebhookErrorKind = keyof typeof texts;

/** The webhook must not be believed; `kind` says why. Answer it with 401. */
export class WebhookError extends ParleyError {
  constructor(readonly kind: WebhookErrorKind) {
    super(texts[kind]);
  }
}

interface Verified<Type, Body> {
  type: Type;
  /** Equal over retries and replays: dedupe on it. */
  uid: string;
  /** The event's key in its domain. */
  id: string;
  deliveryId: string;
  /** 1 for the first attempt of this delivery. */
  attempt: number;
  source: string;
  body: Body;
}

/** A verified event; `type` tells the type of `body`. */
export type WebhookEvent = {
  [Type in keyof EventBodies]: Verified<Type, EventBodies[Type]>;
}[keyof EventBodies];

export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

export interface VerifyOptions {
  /** The largest difference between the signature's time and the clock. The default is 300. */
  toleranceSeconds?: number;
  /** The clock, in milliseconds since 1970. The default is Date.now. */
  now?: () => number;
}

/**
 * Returns the event if any signature matches any of the secrets, and throws a WebhookError if not. The
 * body must be the raw bytes as they came.
 */
export async function verifyWebhook(
  headers: WebhookHeaders,
  body: Uint8Array | string,
  secrets: string | string[],
  { toleranceSeconds = 300, now = Date.now }: VerifyOptions = {},
): Promise<WebhookEvent> {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const keys = typeof secrets === "string" ? [secrets] : secrets;
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const given = new Map(entries.map(([name, value]) => [name.toLowerCase(), String(value ?? "")]));
  const header = (name: string) => given.get(name) ?? "";
  await verify(header("x-svc-signature"), bytes, keys, toleranceSeconds, Math.floor(now() / 1000));
  return {
    type: header("x-svc-event"),
    uid: header("x-svc-event-uid"),
    id: header("x-svc-event-id"),
    deliveryId: header("x-svc-delivery-id"),
    attempt: Number(header("x-svc-attempt")) || 0,
    source: header("x-svc-source"),
    body: parse(bytes),
  } as WebhookEvent;
}

async function verify(header: string, body: Uint8Array, secrets: string[], tolerance: number, now: number): Promise<void> {
  if (secrets.length === 0 || secrets.includes("")) throw new WebhookError("no_secret"); // anyone could sign with an empty one
  if (header === "") throw new WebhookError("missing_header");
  const parts = /^t=([^,]*)((?:,v1=[0-9a-f]{64})+)$/.exec(header);
  if (parts === null) throw new WebhookError("malformed_header");
  const [, signedAt = "", signatures = ""] = parts;
  if (!/^[0-9]{1,11}$/.test(signedAt)) throw new WebhookError("bad_timestamp");
  if (now - Number(signedAt) > tolerance) throw new WebhookError("too_old");
  if (Number(signedAt) - now > tolerance) throw new WebhookError("in_the_future");
  const stamp = new TextEncoder().encode(`${signedAt}.`);
  const signed = new Uint8Array(stamp.length + body.length);
  signed.set(stamp);
  signed.set(body, stamp.length);
  let matches = false;
  for (const secret of secrets) {
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), algorithm, false, ["verify"]);
    for (const signature of signatures.split(",v1=").slice(1)) {
      // verify compares in constant time.
      matches = (await crypto.subtle.verify("HMAC", key, fromHex(signature), signed)) || matches;
    }
  }
  if (!matches) throw new WebhookError("no_match");
}

function fromHex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

function parse(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new WebhookError("malformed_body");
  }
}
