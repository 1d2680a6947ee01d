// Verifies recorded deliveries with Node's own cryptography, and shares nothing with the
// Go side. Standard input holds one JSON object a line:
//   { "headers": {...}, "body": "<base64>", "secrets": ["..."], "at": <unix seconds of arrival> }
// where secrets are those active at that time. Answers one JSON object.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createInterface } from "node:readline";

const toleranceSeconds = 300;
const keptFailures = 100;

const summary = { total: 0, verified: 0, segment_mismatches: 0, foreign_segments: 0, signed_256: 0, failed: 0, failures: [] };

class Failure extends Error {
  constructor(step, detail) {
    super(detail);
    this.step = step;
  }
}

function readHeader(value) {
  if (typeof value !== "string") throw new Failure("malformed_header", "there is no X-Svc-Signature");
  const match = /^t=(0|[1-9][0-9]{0,10})((?:,v1=[0-9a-f]{64})+)$/.exec(value);
  if (match === null) throw new Failure("malformed_header", value);
  return { t: match[1], signatures: match[2].split(",v1=").slice(1).map((hex) => Buffer.from(hex, "hex")) };
}

const hmac = (secret, ...parts) => parts.reduce((mac, part) => mac.update(part), createHmac("sha256", secret)).digest();

const same = (a, b) => a.length === 32 && b.length === 32 && timingSafeEqual(a, b);

function verify({ headers, body, secrets, at }) {
  const named = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const raw = Buffer.from(body, "base64");
  const { t, signatures } = readHeader(named["x-svc-signature"]);
  const skew = Number(t) - at;
  if (Math.abs(skew) > toleranceSeconds) throw new Failure("clock_skew", `${skew} s`);

  const wanted = secrets.map((secret) => hmac(secret, t, ".", raw));
  const foreign = signatures.filter((signature) => !wanted.some((digest) => same(digest, signature))).length;
  summary.foreign_segments += foreign;
  if (signatures.length !== secrets.length) {
    summary.segment_mismatches++;
    throw new Failure("segments", `${signatures.length} v1 for ${secrets.length} active secrets`);
  }
  if (foreign > 0) throw new Failure("no_match", `${foreign} of ${signatures.length} v1 were made by no active secret`);
  const missing = wanted.filter((digest) => !signatures.some((signature) => same(digest, signature))).length;
  if (missing > 0) throw new Failure("no_match", `${missing} active secrets made no v1`);
  verifyBodyOnly(named["x-svc-signature-256"], raw, secrets);
}

function verifyBodyOnly(value, raw, secrets) {
  if (value === undefined) return;
  summary.signed_256++;
  const match = /^sha256=([0-9a-f]{64})$/.exec(value);
  if (match === null) throw new Failure("malformed_header", `X-Svc-Signature-256: ${value}`);
  const signature = Buffer.from(match[1], "hex");
  if (!secrets.some((secret) => same(hmac(secret, raw), signature))) {
    throw new Failure("no_match", "X-Svc-Signature-256 was made by no active secret");
  }
}

for await (const text of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  if (text === "") continue;
  const delivery = JSON.parse(text);
  summary.total++;
  try {
    verify(delivery);
    summary.verified++;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    summary.failed++;
    if (summary.failures.length < keptFailures) {
      summary.failures.push({
        line: summary.total,
        delivery_id: delivery.headers["X-Svc-Delivery-Id"] ?? "",
        step: error.step,
        detail: error.message,
      });
    }
  }
}
process.stdout.write(JSON.stringify(summary) + "\n");
