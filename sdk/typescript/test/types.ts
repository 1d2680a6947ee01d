// Compiled, not run: what the types of the SDK allow and refuse.

import { Parley, type WebhookEvent, type types } from "../dist/index.js";

export async function calls(parley: Parley): Promise<string | undefined> {
  const text: types.SendText = { messaging_product: "chat", to: "+15550100001", type: "text", text: { body: "Hi" } };
  const { data } = await parley.sendMessage("1", text, { idempotencyKey: "k" });
  // @ts-expect-error an image without its content
  await parley.sendMessage("1", { messaging_product: "chat", to: "+15550100001", type: "image" });
  // @ts-expect-error a status that does not exist
  parley.listMessages("1", { status: "lost" });
  // @ts-expect-error a GET takes no Idempotency-Key
  await parley.getMe({ idempotencyKey: "k" });
  await parley.updateContact("1", "ctc_1", { name: null });
  for await (const label of parley.listLabels({ limit: 100 })) return label.name;
  const { left_out } = await parley.getMessageTimeline("1", data.id).page();
  return left_out[0]?.kind;
}

export function body(event: WebhookEvent): string | undefined {
  if (event.type === "contact.created") return event.body.data.contact.id;
  // @ts-expect-error a message has no data
  if (event.type === "message.received") return event.body.data;
  return undefined;
}
