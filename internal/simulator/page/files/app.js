// The phone of a user: it reads messages from /sim and posts the user's actions there.

const $ = (id) => document.getElementById(id);
const app = $("app"), thread = $("thread"), sheet = $("sheet");
let state = { numbers: [], users: [] };
let selected = { number: "", phone: "" };
let bubbles = new Map();
let repliedTo = null;
let typingUntil = 0;

// el builds an element. Strings become text nodes, never markup.
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

async function ask(path, body, headers = { "Content-Type": "application/json" }) {
  const options = body === undefined ? {} : { method: "POST", headers, body: headers["Content-Type"] === "application/json" ? JSON.stringify(body) : body };
  const answer = await fetch("/sim/" + path, options);
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.error?.message ?? answer.statusText);
  return result;
}

function showError(error) {
  const toast = $("toast");
  toast.textContent = error.message;
  toast.hidden = false;
  setTimeout(() => { toast.hidden = true; }, 5000);
}

const clock = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const day = (at) => new Date(at).toLocaleDateString([], { weekday: "long", day: "numeric", month: "long" });
const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const initials = (name) => name.split(/\s+/).map((word) => word[0]).slice(0, 2).join("").toUpperCase();
const tint = (text) => `hsl(${[...text].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) % 360, 7)} 45% 42%)`;
const pretty = (digits) => (/^1\d{10}$/.test(digits) ? `+1 ${digits.slice(1, 4)} ${digits.slice(4, 7)} ${digits.slice(7)}` : "+" + digits);
const user = () => state.users.find((one) => one.phone === selected.phone) ?? { phone: selected.phone, name: pretty(selected.phone) };
const number = () => state.numbers.find((one) => one.id === selected.number);

// summary returns a message in one line.
function summary(b) {
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
    case "audio": return "Audio";
    case "document": return c.filename ?? "Document";
    default: return b.type;
  }
}

// Elements of unchanged messages are reused, because the user may be clicking on one of them.
const cache = new Map();

function cached(id, what, build) {
  const key = JSON.stringify(what);
  if (cache.get(id)?.key !== key) cache.set(id, { key, node: build() });
  return cache.get(id).node;
}

function replaceNodes(parent, nodes) {
  nodes.forEach((node, i) => { if (parent.children[i] !== node) parent.insertBefore(node, parent.children[i] ?? null); });
  while (parent.children.length > nodes.length) parent.lastChild.remove();
}

// ---- the list of users

async function load() {
  state = await ask("state");
  const chosen = selected.number && number() ? selected.number : state.numbers[0]?.id ?? "";
  $("number").replaceChildren(...state.numbers.map((n) =>
    el("option", { value: n.id, selected: n.id === chosen }, `${n.verified_name} · ${n.display_phone_number}`)));
  selected.number = chosen;
  drawUsers();
}

function drawUsers() {
  const latest = (one) => one.last?.[selected.number]?.at ?? "";
  const sorted = [...state.users].sort((a, b) => latest(b).localeCompare(latest(a)) || a.name.localeCompare(b.name));
  replaceNodes($("people"), sorted.map((one) => {
    const last = one.last?.[selected.number];
    const preview = last ? summary(last) : one.username ? "@" + one.username : pretty(one.phone);
    const node = cached("person " + one.phone, [one.name, preview, last?.at], () =>
      el("button", { class: "person", "data-phone": one.phone, onclick: () => open(one.phone).catch(showError) },
        el("span", { class: "avatar", style: `--tint:${tint(one.name)}` }, initials(one.name)),
        el("strong", {}, one.name), el("time", {}, last ? clock(last.at) : ""), el("span", { class: "last" }, preview)));
    node.setAttribute("aria-current", String(one.phone === selected.phone));
    return node;
  }));
}

// ---- the conversation

async function open(phone) {
  selected.phone = phone;
  location.hash = `${selected.number}/${phone}`;
  quote(null);
  typingUntil = 0;
  if (!state.users.some((one) => one.phone === phone)) {
    await ask("users", { phone });
    await load();
  }
  app.classList.remove("listing");
  const n = number();
  $("business").textContent = n?.verified_name ?? "";
  $("identity").textContent = `You are ${user().name} · ${pretty(phone)}`;
  $("face").textContent = initials(n?.verified_name ?? "?");
  const messages = await ask(`thread?phone_number_id=${selected.number}&user=${phone}`);
  bubbles = new Map((messages.data ?? []).map((b) => [b.id, b]));
  thread.replaceChildren();
  cache.clear();
  atEnd = true;
  drawUsers();
  draw();
  if (!matchMedia("(hover: none)").matches) $("text").focus();
}

let atEnd = true;
thread.addEventListener("scroll", () => { atEnd = thread.scrollHeight - thread.scrollTop - thread.clientHeight < 360; }); // less than the height of a new picture
const settle = () => { if (atEnd) thread.scrollTop = thread.scrollHeight; };

function draw() {
  const lines = [];
  let shownDay = "";
  for (const b of [...bubbles.values()].sort((x, y) => x.at.localeCompare(y.at))) {
    if (b.type === "reaction" || ((b.type === "revoke" || b.type === "edit") && bubbles.has(b.content?.original_message_id))) continue;
    if (day(b.at) !== shownDay) {
      shownDay = day(b.at);
      lines.push(cached("day " + shownDay, 0, () => el("li", { class: "day" }, day(b.at))));
    }
    const node = cached(b.id, { ...b, status: 0, error: 0, earlier: summary(bubbles.get(b.context_id) ?? {}) }, () => bubble(b));
    node.querySelector(".tick").replaceWith(ticks(b));
    if (b.error && !node.querySelector(".problem")) node.append(el("div", { class: "problem" }, `${b.error.code}: ${b.error.title}`));
    lines.push(node);
  }
  if (typingUntil > Date.now()) lines.push(cached("typing", 0, () => el("li", { class: "typing" }, "typing…")));
  replaceNodes(thread, lines);
  settle();
}

function bubble(b) {
  const mine = !b.outbound;
  const reactions = (b.reactions ?? []).filter(Boolean);
  const earlier = b.context_id && bubbles.get(b.context_id);
  return el("li", { class: `bubble ${mine ? "mine" : ""} ${reactions.length ? "reacted" : ""}`, "data-id": b.id, "data-type": b.type },
    b.echo ? el("span", { class: "label" }, "from the business's phone") : null,
    earlier ? el("div", { class: "quoted" }, summary(earlier)) : null,
    b.revoked ? el("p", { class: "gone" }, "This message was deleted") : content(b),
    el("div", { class: "meta" }, b.edited ? "edited" : "", clock(b.at), ticks(b)),
    reactions.length ? el("span", { class: "reactions" }, reactions.join(" ")) : null,
    b.revoked ? null : el("button", { class: "icon act", "aria-label": "Reply or react", onclick: () => actions(b) }, "☺"));
}

function ticks(b) {
  const marks = { sent: "✓", delivered: "✓✓", read: "✓✓", played: "✓✓", failed: "" }[b.status] ?? "◷";
  const read = b.status === "read" || b.status === "played";
  return el("span", { class: `tick ${read ? "read" : ""}`, "data-status": b.status ?? "accepted", title: b.status ?? "accepted" }, b.status === "failed" ? "⚠" : marks);
}

// SVG paths, because not every machine has a font with emoji.
const drawings = {
  pin: "M12 21s-6.500-5.800-6.500-11a6.500 6.500 0 0 1 13 0c0 5.200-6.500 11-6.500 11zM12 12.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5z",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.500 20.500c.6-4 3.600-6 7.500-6s6.900 2 7.500 6",
  file: "M6.500 3h7l4 4v14h-11zM13.500 3v4h4M9 12h6M9 16h6",
  cart: "M3 4h3l2.200 11h9.600L20 7.500H6.800M9.500 20h.01M17 20h.01",
};

function drawing(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  path.setAttribute("d", drawings[name]);
  svg.append(path);
  return svg;
}

const fileOf = (c) => (c?.file || c?.id ? "/sim/media/" + (c.file || c.id) : c?.link ?? "");

function content(b) {
  const c = b.content ?? {};
  switch (b.type) {
    case "text": return el("p", {}, c.body ?? "");
    case "image": return [el("img", { onload: settle, src: fileOf(c), alt: c.caption ?? "picture" }), c.caption ? el("p", {}, c.caption) : null];
    case "sticker": return el("img", { class: "sticker", onload: settle, src: fileOf(c), alt: "sticker" });
    case "video": return [el("video", { src: fileOf(c), controls: true, onloadedmetadata: settle }), c.caption ? el("p", {}, c.caption) : null];
    case "audio": return el("audio", { src: fileOf(c), controls: true });
    case "document": return [document_(c), c.caption ? el("p", {}, c.caption) : null];
    case "location": return card("pin", c.name ?? "Location", c.address ?? `${c.latitude}, ${c.longitude}`);
    case "contacts": return (Array.isArray(c) ? c : []).map((one) => card("person", one.name?.formatted_name ?? "Contact", one.phones?.[0]?.phone ?? ""));
    case "template": return templated(b, c);
    case "interactive": return interactive(b, c);
    case "button": return el("p", {}, c.text ?? "");
    case "order": return card("cart", count(c.product_items?.length ?? 0, "item"), c.text ?? "");
    default: return el("p", { class: "gone" }, `${b.type} message`);
  }
}

const card = (glyph, title, text) => el("div", { class: "card" }, drawing(glyph), el("span", {}, el("b", {}, title), el("small", {}, text)));
const document_ = (c) => el("a", { class: "file", href: fileOf(c), target: "_blank", rel: "noopener" },
  drawing("file"), el("span", {}, c.filename ?? "Document", el("small", {}, c.mime_type ?? "")));

function headed(kind, file, text) {
  if (kind === "IMAGE" && file) return el("img", { src: fileOf(file), alt: "" });
  if (kind === "VIDEO" && file) return el("video", { src: fileOf(file), controls: true });
  if (kind === "DOCUMENT" && file) return document_(file);
  return text ? el("p", { class: "head" }, text) : null;
}

function templated(b, c) {
  const tap = (button) => {
    if (button.type === "QUICK_REPLY") return el("button", { onclick: () => sendInbound(b.id, "button", { payload: button.payload, text: button.text }) }, button.text);
    return el("button", { onclick: () => showError(new Error(`${button.type}: ${button.url || button.text}`)) }, button.text || "Copy code");
  };
  return [headed(c.format, c.file, c.header), el("p", {}, c.body ?? ""), c.footer ? el("p", { class: "foot" }, c.footer) : null,
    c.buttons?.length ? el("div", { class: "taps" }, c.buttons.map(tap)) : null];
}

function interactive(b, c) {
  if (c.button_reply || c.list_reply) {
    const reply = c.button_reply ?? c.list_reply;
    return [el("p", {}, reply.title), reply.description ? el("p", { class: "foot" }, reply.description) : null];
  }
  if (c.nfm_reply) return card("file", "Answered a form", c.nfm_reply.body ?? "");
  const kind = c.header?.type?.toUpperCase();
  return [headed(kind, c.header?.[c.header?.type], c.header?.text), el("p", {}, c.body?.text ?? ""), c.footer ? el("p", { class: "foot" }, c.footer.text) : null,
    el("div", { class: "taps" }, taps(b, c))];
}

function taps(b, c) {
  const answer = (kind, reply) => sendInbound(b.id, "interactive", { type: kind, [kind]: reply });
  switch (c.type) {
    case "button": return (c.action?.buttons ?? []).map(({ reply }) => el("button", { onclick: () => answer("button_reply", reply) }, reply.title));
    case "list": return el("button", { onclick: () => choose(c, (row) => answer("list_reply", row)) }, "☰ " + (c.action?.button ?? "Choose"));
    case "cta_url": return el("a", { href: c.action?.parameters?.url, target: "_blank", rel: "noopener" }, "↗ " + (c.action?.parameters?.display_text ?? ""));
    case "flow": return el("button", { onclick: () => answer("nfm_reply", { name: "flow", body: "Sent", response_json: JSON.stringify({ flow_token: c.action?.parameters?.flow_token ?? "" }) }) }, c.action?.parameters?.flow_cta ?? "Open");
    case "location_request_message": return el("button", { onclick: () => sendInbound(b.id, "location") }, "Send location");
    case "request_contact_info": return el("button", { onclick: () => sendInbound(b.id, "contacts", [{ name: { formatted_name: user().name }, phones: [{ phone: "+" + selected.phone, type: "CELL", wa_id: selected.phone }] }], { origin: "contact_request" }) }, "Share contact");
    default: return [];
  }
}

function choose(list, picked) {
  const rows = (list.action?.sections ?? []).flatMap((section) => [
    section.title ? el("h3", {}, section.title) : null,
    ...section.rows.map((row) => el("button", { class: "option", onclick: () => { sheet.close(); picked(row); } }, row.title, row.description ? el("small", {}, row.description) : null)),
  ]);
  show(el("h2", {}, list.action?.button ?? "Choose"), rows);
}

function show(...parts) {
  sheet.replaceChildren(...parts.flat().filter(Boolean));
  sheet.showModal();
}

// ---- actions of the user

async function sendInbound(context, type, what, more = {}) {
  const body = { phone_number_id: selected.number, from: selected.phone, type, ...more };
  if (what !== undefined) body[type] = what;
  if (context) body.context = { id: context };
  try { await ask("inbound", body); } catch (error) { showError(error); }
}

function actions(b) {
  const option = (text, act) => el("button", { class: "option", onclick: () => { sheet.close(); act(); } }, text);
  const mine = !b.outbound;
  show(el("div", { class: "emojis" }, ["👍", "❤️", "😂", "😮", "😢", "🙏"].map((emoji) =>
    el("button", { "aria-label": emoji, onclick: () => { sheet.close(); sendInbound("", "reaction", { message_id: b.id, emoji }); } }, emoji))),
  option("Reply", () => { quote(b); $("text").focus(); }),
  b.reactions?.[0] ? option("Take the reaction back", () => sendInbound("", "reaction", { message_id: b.id, emoji: "" })) : null,
  mine && b.type === "text" ? option("Edit", () => {
    const body = prompt("Edit the message", b.content.body);
    if (body) sendInbound("", "edit", { original_message_id: b.id, message: { type: "text", text: { body } } });
  }) : null,
  mine ? option("Delete for everyone", () => sendInbound("", "revoke", { original_message_id: b.id })) : null,
  option("Copy the id", () => navigator.clipboard?.writeText(b.id)));
}

function quote(b) {
  repliedTo = b;
  $("quote").hidden = !b;
  $("quote").replaceChildren(...(b ? [el("div", { class: "quoted" }, summary(b)), el("button", { class: "icon", "aria-label": "No reply", onclick: () => quote(null) }, "×")] : []));
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const body = $("text").value.trim();
  if (!body) return;
  $("text").value = "";
  sendInbound(repliedTo?.id, "text", { body });
  quote(null);
});

$("place").addEventListener("click", () => sendInbound(repliedTo?.id, "location"));

$("file").addEventListener("change", async (event) => {
  const file = event.target.files[0];
  event.target.value = "";
  if (!file) return;
  const mime = file.type || "application/octet-stream";
  const [family] = mime.split("/");
  const kind = mime === "image/webp" ? "sticker" : ["image", "video", "audio"].includes(family) ? family : "document";
  try {
    const uploaded = await ask(`media?phone_number_id=${selected.number}&filename=${encodeURIComponent(file.name)}`, file, { "Content-Type": mime });
    await sendInbound(repliedTo?.id, kind, { id: uploaded.id, caption: $("text").value.trim() || undefined });
    $("text").value = "";
    quote(null);
  } catch (error) { showError(error); }
});

$("newcomer").addEventListener("submit", (event) => {
  event.preventDefault();
  const digits = $("phone").value.replace(/\D/g, "");
  $("phone").value = "";
  if (digits) open(digits).catch(showError);
});

$("number").addEventListener("change", (event) => {
  selected.number = event.target.value;
  drawUsers();
  if (selected.phone && !app.classList.contains("listing")) open(selected.phone).catch(showError);
});

$("back").addEventListener("click", () => { app.classList.add("listing"); location.hash = ""; });

$("more").addEventListener("click", () => {
  const option = (text, detail, path, body) => el("button", { class: "option", onclick: async () => {
    sheet.close();
    try { await ask(path, { phone_number_id: selected.number, from: selected.phone, ...body }); } catch (error) { showError(error); }
  } }, text, el("small", {}, detail));
  show(el("h2", {}, user().name),
    option("Stop marketing", "tells the business: user_preferences, stop", "preferences", { value: "stop" }),
    option("Resume marketing", "tells the business: user_preferences, resume", "preferences", { value: "resume" }),
    option("New user id", "tells the business: user_changed_user_id", "system", { type: "user_changed_user_id" }),
    option("New security code", "tells the business: customer_identity_changed", "system", { type: "customer_identity_changed" }));
});

sheet.addEventListener("click", (event) => { if (event.target === sheet) sheet.close(); });

// ---- events from the simulator

function applyMessage(b, isNew) {
  const one = state.users.find((candidate) => candidate.phone === b.phone);
  if (!one) return void load().catch(showError);
  if (isNew && (one.last?.[b.phone_number_id]?.at ?? "") <= b.at) one.last = { ...one.last, [b.phone_number_id]: b };
  drawUsers();
  if (b.phone_number_id !== selected.number || b.phone !== selected.phone) return;
  if (isNew && b.outbound && !bubbles.has(b.id)) typingUntil = 0;
  bubbles.set(b.id, b);
  draw();
}

function listen() {
  const events = new EventSource("/sim/events");
  const again = () => load().then(() => selected.phone && !app.classList.contains("listing") && open(selected.phone)).catch(showError);
  let before = false;
  events.addEventListener("hello", () => {
    $("live").textContent = "live";
    $("live").classList.add("on");
    if (before) again();
    before = true;
  });
  events.addEventListener("message", (event) => applyMessage(JSON.parse(event.data), true));
  events.addEventListener("status", (event) => applyMessage(JSON.parse(event.data), false));
  events.addEventListener("state", () => load().catch(showError));
  events.addEventListener("reset", again);
  events.addEventListener("typing", (event) => {
    const typing = JSON.parse(event.data);
    if (typing.phone_number_id !== selected.number || typing.phone !== selected.phone) return;
    typingUntil = Date.now() + 25000;
    draw();
    setTimeout(() => draw(), 25100);
  });
  events.onerror = () => { $("live").textContent = "reconnecting"; $("live").classList.remove("on"); };
}

const [numberID, phone] = location.hash.slice(1).split("/");
selected.number = numberID;
load().then(() => (phone ? open(phone) : null)).then(listen).catch(showError);
