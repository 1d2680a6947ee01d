// The code blocks of sdk/typescript/README.md are inserted below, and then run by `make sdk`.
declare const process: { env: Record<string, string> };

const apiKey = process.env["PARLEY_KEY"]!;
const baseUrl = process.env["PARLEY_URL"]!;
const number = process.env["PARLEY_NUMBER"]!;
const secrets = ["old", "new"];
const rawBody = new TextEncoder().encode('{"type":"contact.created","data":{"contact":{"id":"con_1"}}}');
const now = String(Math.floor(Date.now() / 1000));
const key = await crypto.subtle.importKey("raw", new TextEncoder().encode("new"), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
const signed = new Uint8Array([...new TextEncoder().encode(now + "."), ...rawBody]);
const signature = [...new Uint8Array(await crypto.subtle.sign("HMAC", key, signed))].map((b) => b.toString(16).padStart(2, "0")).join("");
const request = new Request("https://example.com", {
  headers: { "X-Svc-Signature": `t=${now},v1=${signature}`, "X-Svc-Event": "contact.created", "X-Svc-Event-Uid": "evt_1" },
});
// README
