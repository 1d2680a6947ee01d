import { APIError, ArgumentError, NetworkError, ServerError, fromAnswer } from "./errors.js";

export const VERSION = "0.1.0";

const FIRST_WAIT = 500; // milliseconds before the second attempt; doubles with each further one
const LONGEST_WAIT = 8_000; // milliseconds; Retry-After may ask for more
const RETRIED = new Set([429, 500, 502, 503, 504]);

export interface Settings {
  apiKey: string;
  /** It ends in /v1. */
  baseUrl: string;
  /** How long one attempt may take, in milliseconds. The default is 30,000. */
  timeoutMs?: number;
  /** The number of attempts after the first. The default is 4. */
  maxRetries?: number;
  /** After this time no further attempt starts, in milliseconds. The default is 60,000. */
  maxElapsedMs?: number;
  /** What carries the requests. The default is the global fetch. */
  fetch?: typeof fetch;
  /** Tests replace these. */
  now?: () => number;
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
  random?: () => number;
}

export interface RequestOptions {
  /** The Idempotency-Key of a POST. Without it the client makes one. */
  idempotencyKey?: string;
  /** Cancels the call. */
  signal?: AbortSignal;
}

/** A file for the library, with the other fields of the form. */
export interface Upload {
  filename: string;
  content: Blob;
  fields?: Record<string, string>;
}

export type Query = Record<string, string | number | boolean | undefined>;

interface Call extends RequestOptions {
  query?: Query;
  body?: unknown;
}

interface Answer {
  status: number;
  headers: Headers;
  body: string;
}

/** Makes requests: headers, retries, errors. */
export class Core {
  readonly #settings: Required<Settings>;

  constructor(settings: Settings) {
    const { apiKey, baseUrl } = settings;
    if (apiKey === "" || !URL.canParse(baseUrl)) {
      throw new ArgumentError("apiKey must not be empty, and baseUrl must be an absolute URL");
    }
    this.#settings = {
      timeoutMs: 30_000,
      maxRetries: 4,
      maxElapsedMs: 60_000,
      fetch: (input, init) => globalThis.fetch(input, init),
      now: () => performance.now(),
      sleep: pause,
      random: Math.random,
      ...given(settings),
      baseUrl: baseUrl.replace(/\/+$/, ""),
    };
  }

  /**
   * Makes a request that has no method of its own, and returns the JSON of its answer. The path is the
   * list of the segments after /v1; each is escaped.
   */
  async request<T>(method: string, path: string[], call: Call = {}): Promise<T> {
    const answer = await this.#send(method, path, call, false);
    try {
      return JSON.parse(answer.body) as T;
    } catch {
      throw new ServerError(answer.status, { type: "api_error", message: "The answer is not JSON." });
    }
  }

  /** Makes a request that is answered with a redirect, and returns where it leads. */
  protected async location(method: string, path: string[], call: Call): Promise<string> {
    return (await this.#send(method, path, call, true)).headers.get("Location") ?? "";
  }

  async #send(method: string, path: string[], call: Call, redirect: boolean): Promise<Answer> {
    const { now, sleep, maxRetries, maxElapsedMs } = this.#settings;
    const [url, init] = await this.#prepare(method, path, call);
    const began = now();
    for (let attempt = 0; ; attempt++) {
      let error: NetworkError | APIError;
      try {
        const answer = await this.#attempt(url, init, call.signal);
        if ((answer.status >= 200 && answer.status < 300) || (redirect && answer.status === 302)) {
          return answer;
        }
        error = fromAnswer(answer.status, answer.body, retryAfter(answer.headers));
      } catch (cause) {
        error = new NetworkError(`${method} ${url}: no answer`, { cause });
      }
      const wait = this.#wait(error, attempt);
      const over = attempt >= maxRetries || now() - began + wait > maxElapsedMs;
      if (over || !canBeRetried(error) || call.signal?.aborted) {
        throw error;
      }
      await sleep(wait, call.signal);
    }
  }

  async #prepare(method: string, path: string[], call: Call): Promise<[string, RequestInit]> {
    const { apiKey, baseUrl } = this.#settings;
    const refused = path.find((segment) => ["", ".", ".."].includes(segment));
    if (refused !== undefined) {
      throw new ArgumentError(`an id or name in the path must not be "${refused}"`);
    }
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined) query.set(name, String(value));
    }
    const headers = new Headers({
      Authorization: `Bearer ${apiKey}`,
      Accept: "application/json",
      "User-Agent": `parley-typescript/${VERSION}`,
    });
    const [body, contentType] = await encoded(call.body);
    if (contentType !== undefined) headers.set("Content-Type", contentType);
    // The key is the same in all attempts, so that the effect happens once.
    if (method === "POST") headers.set("Idempotency-Key", call.idempotencyKey ?? crypto.randomUUID());
    const target = [baseUrl, ...path.map(encodeURIComponent)].join("/");
    // A redirect is not followed, so that the key never goes to another host.
    return [query.size > 0 ? `${target}?${query}` : target, { method, headers, body, redirect: "manual" }];
  }

  async #attempt(url: string, init: RequestInit, signal: AbortSignal | undefined): Promise<Answer> {
    const timeout = AbortSignal.timeout(this.#settings.timeoutMs);
    const response = await this.#settings.fetch(url, {
      ...init,
      signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
    });
    return { status: response.status, headers: response.headers, body: await response.text() };
  }

  /** Milliseconds before the next attempt. The random part keeps clients from coming back together. */
  #wait(error: NetworkError | APIError, attempt: number): number {
    const random = this.#settings.random();
    if (error instanceof APIError && error.retryAfter !== undefined) {
      return error.retryAfter * 1000 + FIRST_WAIT * random;
    }
    const full = Math.min(FIRST_WAIT * 2 ** attempt, LONGEST_WAIT);
    return full / 2 + (full / 2) * random;
  }
}

export interface Page<T> {
  data: T[];
  has_more: boolean;
  next_cursor: string | null;
}

/** The settings that have a value: one that is undefined keeps its default. */
function given(settings: Settings): Settings {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined)) as unknown as Settings;
}

/** A list of the API: `for await` goes over all items; pages are fetched as they are needed. */
export class List<T, P extends Page<T>> implements AsyncIterable<T> {
  constructor(
    private readonly core: Core,
    private readonly path: string[],
    private readonly query: Query,
    private readonly options: RequestOptions,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for await (const page of this.pages()) yield* page.data;
  }

  /** The page at `cursor`, or the first one. */
  page(): Promise<P> {
    return this.core.request<P>("GET", this.path, { ...this.options, query: this.query });
  }

  async *pages(): AsyncGenerator<P> {
    const query = { ...this.query };
    for (;;) {
      const page = await this.core.request<P>("GET", this.path, { ...this.options, query });
      yield page;
      if (!page.has_more) return;
      if (!page.next_cursor || page.next_cursor === query["cursor"]) {
        const message = "has_more is true, but next_cursor leads nowhere.";
        throw new ServerError(200, { type: "api_error", message });
      }
      query["cursor"] = page.next_cursor;
    }
  }
}

function canBeRetried(error: NetworkError | APIError): boolean {
  if (!(error instanceof APIError)) return true;
  return RETRIED.has(error.status) || error.code === "idempotency_in_progress";
}

function retryAfter(headers: Headers): number | undefined {
  const value = headers.get("Retry-After") ?? "";
  return /^[0-9]{1,9}$/.test(value) ? Number(value) : undefined;
}

/** The bytes of a body and their content type. */
async function encoded(body: unknown): Promise<[ArrayBuffer | string | undefined, string | undefined]> {
  if (body === undefined) return [undefined, undefined];
  if (!isUpload(body)) return [JSON.stringify(body), "application/json"];
  const form = new FormData();
  for (const [name, value] of Object.entries(body.fields ?? {})) form.set(name, value);
  form.set("file", body.content, body.filename);
  const made = new Response(form);
  return [await made.arrayBuffer(), made.headers.get("Content-Type") ?? undefined];
}

function isUpload(body: unknown): body is Upload {
  return typeof body === "object" && body !== null && "content" in body && body.content instanceof Blob;
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancelled = () => {
      clearTimeout(timer);
      reject(new NetworkError("the call was cancelled", { cause: signal?.reason }));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", cancelled);
      resolve();
    }, ms);
    signal?.addEventListener("abort", cancelled, { once: true });
  });
}
