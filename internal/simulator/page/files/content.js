// What the phone shows of a message: its content by type, its ticks, its quotation in a reply.

// el builds an element. Strings become text nodes, never markup.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// summary returns a message in one line.
export function summary(b) {
  if (b.revoked) return "deleted";
  const c = b.content ?? {};
  switch (b.type) {
    case "text": return c.body ?? "";
    case "template": return c.body ?? c.name ?? "";
    case "interactive": return c.body?.text ?? c.button_reply?.title ?? c.list_reply?.title ?? "answer";
    case "button": return c.text ?? "";
    case "reaction": return c.emoji ? `reacted ${c.emoji}` : "took a reaction back";
    case "location": return "Location: " + (c.name ?? "unknown");
    case "contacts": return "Contact: " + (c[0]?.name?.formatted_name ?? "unknown");
    case "image": return c.caption ?? "Picture";
    case "video": return c.caption ?? "Video";
    case "audio": return c.voice ? "Voice message" : "Audio";
    case "document": return c.filename ?? "Document";
    default: return b.type;
  }
}

const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

// SVG paths, because not every machine has a font with these characters.
const drawings = {
  pin: "M12 21s-6.500-5.800-6.500-11a6.500 6.500 0 0 1 13 0c0 5.200-6.500 11-6.500 11zM12 12.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5z",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.500 20.500c.6-4 3.600-6 7.500-6s6.900 2 7.500 6",
  file: "M6.500 3h7l4 4v14h-11zM13.500 3v4h4M9 12h6M9 16h6",
  cart: "M3 4h3l2.200 11h9.600L20 7.500H6.800M9.500 20h.01M17 20h.01",
  voice: "M12 3a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0V6a3 3 0 0 1 3-3zM6 11a6 6 0 0 0 12 0M12 17v4",
  link: "M9 6h-4v13h13v-4M13 4h7v7M20 4l-9 9",
  reply: "M10 6l-6 6 6 6M4 12h9c4 0 7 2 7 6",
  list: "M9 7h11M9 12h11M9 17h11M4.500 7h.01M4.500 12h.01M4.500 17h.01",
  form: "M5 4h14v16h-14zM9 9h6M9 13h6",
  copy: "M9 9h11v11h-11zM5 15h-1v-11h11v1",
  call: "M5 4h4l2 5-2.500 2c1 2 2.500 3.500 4.500 4.500l2-2.500 5 2v4c-9 1-16-6-15-15z",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3 2",
  one: "M5 12.500l4.500 4.500L19 7.500",
  two: "M1.500 12.500l4.500 4.500L15.500 7.500M10 15.500l1.500 1.500L21.500 7.500",
  failed: "M12 3.500l9.500 17h-19zM12 10v5M12 17.800v.01",
};

function drawing(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", drawings[name]);
  svg.append(path);
  return svg;
}

const marksOf = { sent: "one", delivered: "two", read: "two", played: "two", failed: "failed", dropped: "failed" };

// ticks shows the status of a message. That of a user's own message is what became of its callback.
export function ticks(b) {
  const status = b.status || "accepted";
  return el("span", { class: `tick ${status}${status === "played" ? " read" : ""}`, "data-status": status, title: fate(b) || status }, drawing(marksOf[status] ?? "clock"));
}

// fate says in words what became of the callback of a user's own message, as long as the business has not got it.
export function fate(b) {
  const { attempt = 0, status = 0, error = "" } = b.callback ?? {};
  const answer = status ? `was answered with ${status}` : `got no answer (${error})`;
  switch (b.outbound ? "" : b.status) {
    case "sent": return "The business is not told: no app has a callback URL.";
    case "waiting": return "Waiting for the answer to the callback.";
    case "retrying": return `The business has not got this yet: the callback ${answer}. It will be posted again; ${count(attempt, "post")} so far.`;
    case "dropped": return `The business never gets this: ${attempt ? `the callback ${answer}, and was given up after ${count(attempt, "post")}` : `its callback was ${error}`}.`;
    default: return "";
  }
}

// quotation shows an earlier message in the reply to it.
export function quotation(earlier, name, onclick) {
  const picture = earlier.type === "image" || earlier.type === "sticker" ? earlier.content : earlier.content?.format === "IMAGE" ? earlier.content.file : null;
  return el("div", { class: "quoted", onclick }, el("span", {}, el("b", {}, name), el("span", {}, summary(earlier))),
    picture && !earlier.revoked ? el("img", { src: fileOf(picture), alt: "" }) : null);
}

const fileOf = (c) => (c?.file || c?.id ? "/sim/media/" + (c.file || c.id) : c?.link ?? "");

// Marks in a text: ```fixed```, *bold*, _italic_, ~struck~, and links. A mark stands at the edge of a word.
const marks = /```([^]+?)```|(?<![\w*])\*(\S(?:[^*\n]*\S)?)\*(?![\w*])|(?<![\w_])_(\S(?:[^_\n]*\S)?)_(?![\w_])|(?<![\w~])~(\S(?:[^~\n]*\S)?)~(?![\w~])|(https?:\/\/[^\s<>"]*[^\s<>".,;:!?)\]'*_~])/g;

function formatted(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(marks)) {
    const [all, fixed, bold, italic, struck, link] = match;
    parts.push(text.slice(end, match.index));
    if (fixed) parts.push(el("code", {}, fixed));
    else if (link) parts.push(el("a", { href: link, target: "_blank", rel: "noopener" }, link));
    else parts.push(el(bold ? "strong" : italic ? "em" : "s", {}, ...formatted(bold ?? italic ?? struck)));
    end = match.index + all.length;
  }
  return [...parts, text.slice(end)];
}

const paragraph = (text) => (text ? el("p", {}, formatted(text)) : null);

// content returns the elements of a message. The device carries out what the user taps.
export function content(b, device) {
  const c = b.content ?? {};
  switch (b.type) {
    case "text": return paragraph(c.body);
    case "image": return [el("img", { onload: device.settle, src: fileOf(c), alt: c.caption ?? "picture" }), paragraph(c.caption)];
    case "sticker": return el("img", { class: "sticker", onload: device.settle, src: fileOf(c), alt: "sticker" });
    case "video": return [el("video", { src: fileOf(c), controls: true, onloadedmetadata: device.settle }), paragraph(c.caption)];
    case "audio": return sound(c);
    case "document": return [document_(c), paragraph(c.caption)];
    case "location": return card("pin", c.name ?? "Location", c.address ?? `${c.latitude}, ${c.longitude}`);
    case "contacts": return (Array.isArray(c) ? c : []).map((one) => card("person", one.name?.formatted_name ?? "Contact", one.phones?.[0]?.phone ?? ""));
    case "template": return templated(b, c, device);
    case "interactive": return interactive(b, c, device);
    case "button": return paragraph(c.text);
    case "order": return card("cart", count(c.product_items?.length ?? 0, "item"), c.text ?? "");
    default: return el("p", { class: "gone" }, `${b.type} message`);
  }
}

const sound = (c) => el("div", { class: c.voice ? "sound voice" : "sound" }, c.voice ? drawing("voice") : null, el("audio", { src: fileOf(c), controls: true }));
const card = (glyph, title, text) => el("div", { class: "card" }, drawing(glyph), el("span", {}, el("b", {}, title), el("small", {}, text)));
const kindOfFile = (c) => (c.mime_type ? c.mime_type.split(";")[0] : /\.(\w{1,5})$/.exec(c.filename ?? "")?.[1].toUpperCase() ?? "");
const document_ = (c) => el("a", { class: "file", href: fileOf(c), target: "_blank", rel: "noopener" },
  drawing("file"), el("span", {}, c.filename ?? "Document", el("small", {}, kindOfFile(c))));

function header(kind, file, text, device) {
  switch (file && kind) {
    case "IMAGE": return el("img", { src: fileOf(file), alt: "", onload: device.settle });
    case "VIDEO": case "GIF": return el("video", { src: fileOf(file), controls: true, onloadedmetadata: device.settle });
    case "DOCUMENT": return document_(file);
    case "LOCATION": return card("pin", file.name ?? "Location", file.address ?? "");
    default: return text ? el("p", { class: "head" }, text) : null;
  }
}

// framed is the common form of templates and interactive messages.
const framed = (head, body, footer, buttons) => [head, paragraph(body), footer ? el("p", { class: "foot" }, footer) : null,
  buttons.length ? el("div", { class: "taps" }, buttons) : null];

const tap = (glyph, text, onclick) => el("button", { onclick }, glyph ? drawing(glyph) : null, text);
// tapLink opens a link in a new tab. Other schemes than http and https are shown, not opened.
const tapLink = (text, href, device) => (/^https?:\/\//i.test(href ?? "")
  ? el("a", { href, title: href, target: "_blank", rel: "noopener" }, drawing("link"), text)
  : tap("link", text, () => device.notice(`Not a web address: ${href}`)));

function templated(b, c, device) {
  const button = (one) => {
    switch (one.type) {
      case "QUICK_REPLY": return tap("reply", one.text, () => device.answer(b, "button", { payload: one.payload, text: one.text }));
      case "URL": return tapLink(one.text, one.url, device);
      case "PHONE_NUMBER": return tap("call", one.text, () => device.notice(`Calls ${one.phone || one.text}`));
      case "OTP": case "COPY_CODE": return tap("copy", one.text || "Copy code", () => device.copy(one.code || ""));
      case "FLOW": return tap("form", one.text, () => device.answer(b, "interactive", flowReply(one.flow_token)));
      default: return tap("", one.text || one.type, () => device.notice(one.type));
    }
  };
  const form = (one) => framed(header(one.format, one.file, one.header, device), one.body, one.footer, (one.buttons ?? []).map(button));
  const cards = (c.cards ?? []).map((one) => el("div", { class: "slide" }, form(one)));
  return [form(c), cards.length ? el("div", { class: "slides" }, cards) : null].flat();
}

const flowReply = (token) => ({ type: "nfm_reply", nfm_reply: { name: "flow", body: "Sent", response_json: JSON.stringify({ flow_token: token ?? "" }) } });

function interactive(b, c, device) {
  const reply = c.button_reply ?? c.list_reply;
  if (reply) return [paragraph(reply.title), reply.description ? el("p", { class: "foot" }, reply.description) : null];
  if (c.nfm_reply) return card("form", "Answered a form", c.nfm_reply.body ?? "");
  const head = header(c.header?.type?.toUpperCase(), c.header?.[c.header?.type], c.header?.text, device);
  return framed(head, c.body?.text, c.footer?.text, taps(b, c, device));
}

function taps(b, c, device) {
  const answer = (kind, reply) => device.answer(b, "interactive", { type: kind, [kind]: reply });
  const parameters = c.action?.parameters ?? {};
  switch (c.type) {
    case "button": return (c.action?.buttons ?? []).map(({ reply }) => tap("reply", reply.title, () => answer("button_reply", reply)));
    case "list": return [tap("list", c.action?.button ?? "Choose", () => device.choose(c, (row) => answer("list_reply", row)))];
    case "cta_url": return [tapLink(parameters.display_text ?? "", parameters.url, device)];
    case "flow": return [tap("form", parameters.flow_cta ?? "Open", () => device.answer(b, "interactive", flowReply(parameters.flow_token)))];
    case "location_request_message": return [tap("pin", "Send location", () => device.answer(b, "location"))];
    case "request_contact_info": return [tap("person", "Share contact", () => device.answer(b, "contacts", [device.card()], { origin: "contact_request" }))];
    default: return [];
  }
}
