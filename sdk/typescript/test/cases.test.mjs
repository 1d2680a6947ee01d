// Plays the cases of sdk/testdata/cases.json, which all SDKs share, against a server that answers as scripted.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";

import * as parley from "../dist/index.js";

const load = (name) => JSON.parse(readFileSync(new URL(`../../testdata/${name}`, import.meta.url), "utf8"));
const suite = load("cases.json");
const operations = load("operations.json");

// Starts a server with the script, and a clock that only sleeping and the server move.
async function serve(script) {
  const world = { script: [...script], seen: [], now: 1_000_000, waits: [] };
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    world.seen.push({ method: request.method, url: request.url, headers: request.headers, body: Buffer.concat(chunks) });
    const step = world.script.shift();
    if (step === undefined) {
      response.writeHead(599).end();
      return;
    }
    world.now += (step.elapse ?? 0) * 1000;
    if (step.hang) return;
    if (step.close) {
      request.socket.destroy();
      return;
    }
    const answer = Buffer.from("body" in step ? JSON.stringify(step.body) : (step.text ?? ""));
    const length = answer.length + (step.cut ? 10 : 0);
    response.writeHead(step.status ?? 200, { ...step.headers, "Content-Length": length, Connection: "close" });
    response.write(answer, () => (step.cut ? request.socket.destroy() : response.end()));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  world.url = `http://127.0.0.1:${server.address().port}/v1`;
  world.stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return world;
}

function connect(world, { settings = {}, random = suite.random } = {}) {
  const given = {};
  if ("timeout" in settings) given.timeoutMs = settings.timeout * 1000;
  if ("max_retries" in settings) given.maxRetries = settings.max_retries;
  if ("max_elapsed" in settings) given.maxElapsedMs = settings.max_elapsed * 1000;
  return new parley.Parley({
    apiKey: suite.api_key,
    baseUrl: world.url,
    now: () => world.now,
    sleep: async (ms) => {
      world.now += ms;
      world.waits.push(ms / 1000);
    },
    random: () => random,
    ...given,
  });
}

function call(client, wanted, list) {
  const { operation, arguments: path = [], upload, query } = wanted;
  const given = [...path];
  if ("body" in wanted) given.push(wanted.body);
  if (upload) given.push({ filename: upload.filename, content: new Blob([upload.content]), fields: upload.fields });
  if (list) given.push(query ?? {});
  if ("idempotency_key" in wanted) given.push({ idempotencyKey: wanted.idempotency_key });
  return client[operation === "getOpenAPI" ? "getOpenApi" : operation](...given);
}

function checkSubset(wanted, got, place) {
  if (Array.isArray(wanted)) {
    assert.equal(got?.length, wanted.length, place);
    wanted.forEach((value, index) => checkSubset(value, got[index], `${place}[${index}]`));
  } else if (typeof wanted === "object" && wanted !== null) {
    for (const [name, value] of Object.entries(wanted)) checkSubset(value, got?.[name], `${place}.${name}`);
  } else {
    assert.equal(got, wanted, place);
  }
}

function checkError(wanted, error) {
  if (wanted === undefined) {
    assert.equal(error, undefined);
    return;
  }
  assert.equal(error?.constructor, parley[wanted.class], String(error));
  assert.equal(error.name, wanted.class);
  const { class: _, request_id: requestId, retry_after: retryAfter, ...fields } = wanted;
  if (requestId !== undefined) fields.requestId = requestId;
  if (retryAfter !== undefined) fields.retryAfter = retryAfter;
  for (const [name, value] of Object.entries(fields)) assert.equal(error[name], value, name);
}

function checkRequests(played, { seen, script }) {
  const wanted = played.expect.requests;
  if (wanted === undefined) return;
  assert.equal(seen.length, wanted.length, "number of requests");
  assert.equal(script.length, 0, "answers that were not asked for");
  wanted.forEach((request, index) => {
    const { method, url, headers, body } = seen[index];
    const { pathname: path, searchParams } = new URL(url, "http://localhost");
    assert.equal(method, request.method ?? method);
    assert.equal(path, request.path ?? path);
    assert.equal(headers.authorization, `Bearer ${suite.api_key}`);
    assert.match(headers["user-agent"], /^parley-typescript\//);
    for (const [name, value] of Object.entries(request.headers ?? {})) assert.equal(headers[name.toLowerCase()], value, name);
    for (const name of request.absent ?? []) assert.ok(!(name.toLowerCase() in headers), name);
    if (request.query) assert.deepEqual(Object.fromEntries(searchParams), request.query);
    if (request.body) assert.deepEqual(JSON.parse(body), request.body);
    for (const text of request.contains ?? []) assert.ok(body.includes(text), text);
    if (method === "POST") assert.match(headers["idempotency-key"], /^[!-~]{1,255}$/);
    if (played.kind === "request") {
      // All attempts of one call are the same.
      const key = "idempotency-key";
      assert.deepEqual([method, url, body, headers[key]], [seen[0].method, seen[0].url, seen[0].body, seen[0].headers[key]]);
    }
  });
}

async function play(played) {
  const world = await serve(played.server);
  const client = connect(world, played);
  const items = [];
  let result;
  let error;
  try {
    const made = call(client, played.call, played.kind === "list");
    if (played.kind === "request") {
      result = await made;
    } else if (played.expect.page) {
      result = await made.page();
    } else {
      for await (const item of made) {
        items.push(item.id);
        if (items.length === played.take) break;
      }
    }
  } catch (thrown) {
    error = thrown;
  }
  await world.stop();
  const { expect } = played;
  checkError(expect.error, error);
  checkRequests(played, world);
  if (expect.waits) assert.deepEqual(world.waits, expect.waits);
  if (expect.items) assert.deepEqual(items, expect.items);
  checkSubset(expect.result ?? expect.page, result, "result");
}

async function verify(played) {
  const { expect, headers, secrets, tolerance } = played;
  const body = "body_hex" in played ? Buffer.from(played.body_hex, "hex") : Buffer.from(played.body ?? suite.body);
  const options = { now: () => played.now * 1000 };
  if (tolerance !== undefined) options.toleranceSeconds = tolerance;
  let event;
  try {
    event = await parley.verifyWebhook(headers, body, secrets, options);
  } catch (error) {
    assert.ok(error instanceof parley.WebhookError, error);
    assert.equal(error.kind, expect.error);
    return;
  }
  assert.equal(expect.error, undefined);
  checkSubset(expect.event, { ...event, delivery_id: event.deliveryId }, "event");
}

test("the cases that all SDKs share", async (t) => {
  assert.ok(suite.cases.length >= 60);
  for (const played of suite.cases) {
    await t.test(played.name, () => (played.kind === "webhook" ? verify(played) : play(played)));
  }
});

test("two calls have two Idempotency-Keys", async () => {
  const world = await serve([{ body: {} }, { body: {} }]);
  const client = connect(world);
  await client.createLabel({ name: "a" });
  await client.createLabel({ name: "a" });
  await world.stop();
  assert.notEqual(world.seen[0].headers["idempotency-key"], world.seen[1].headers["idempotency-key"]);
});

test("every operation of the contract", async () => {
  assert.ok(operations.length >= 61);
  for (const operation of operations) {
    const world = await serve([{ status: operation.status, headers: { Location: "x" }, body: operation.answer }]);
    const made = call(connect(world), operation, false);
    if (made instanceof parley.List) {
      for await (const item of made) assert.fail(`${item}`);
    } else {
      await made;
    }
    await world.stop();
    assert.deepEqual([world.seen[0].method, world.seen[0].url], [operation.method, operation.path], operation.operation);
  }
});

test("a call that the caller cancels is not retried", async () => {
  const world = await serve([{ status: 503 }, { status: 503 }]);
  const cancel = new AbortController();
  const client = new parley.Parley({ apiKey: "a", baseUrl: world.url, random: () => (cancel.abort(), 0.5) });
  await assert.rejects(client.getMe({ signal: cancel.signal }), parley.APIError);
  await world.stop();
  assert.equal(world.seen.length, 1);
});

test("a call that the caller cancels while it waits ends", async () => {
  const world = await serve([{ status: 503, headers: { "Retry-After": "50" } }]);
  const cancel = new AbortController();
  let waits = 0;
  const now = () => {
    if (waits++ === 1) setImmediate(() => cancel.abort());
    return 0;
  };
  const client = new parley.Parley({ apiKey: "a", baseUrl: world.url, now });
  await assert.rejects(client.getMe({ signal: cancel.signal }), parley.NetworkError);
  await world.stop();
});
