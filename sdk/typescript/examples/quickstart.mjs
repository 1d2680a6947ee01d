// Sends a message, receives its message.sent event as a verified webhook, waits until the message is
// delivered and lists the conversation. It needs the variables that `parley dev` prints.

import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

import { Parley, WebhookError, verifyWebhook } from "@parley-chat/parley";

const { PARLEY_KEY: apiKey, PARLEY_URL: baseUrl, PARLEY_NUMBER: number } = process.env;
const parley = new Parley({ apiKey, baseUrl });

// Subscribe to an event, and receive it here.
let secret;
const told = new Set();
const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    const event = await verifyWebhook(request.headers, Buffer.concat(chunks), secret);
    if (event.type === "message.sent") told.add(event.body.data.message.id);
    console.log("verified", event.type, event.uid);
    response.writeHead(204).end();
  } catch (error) {
    response.writeHead(error instanceof WebhookError ? 401 : 500).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const { data: subscription } = await parley.createSubscription({
  url: `http://127.0.0.1:${server.address().port}`,
  events: ["message.sent"],
});
secret = subscription.initial_secret;

// Send a message. The client makes an Idempotency-Key and retries, so that it is sent once.
let { data: message } = await parley.sendMessage(number, {
  messaging_product: "chat",
  to: "+15550100001",
  type: "text",
  text: { body: "Hello from TypeScript" },
});
console.log("accepted", message.id);

while (!told.has(message.id)) await sleep(100);
while (message.status !== "delivered" && message.status !== "read") {
  await sleep(200);
  ({ data: message } = await parley.getMessage(number, message.id));
}
console.log("status", message.status);

for await (const one of parley.listMessages(number, { conversation_id: message.conversation_id, limit: 1 })) {
  console.log("listed", one.id, one.direction, one.status);
}
await parley.deleteSubscription(subscription.id);
server.close();
server.closeAllConnections();
