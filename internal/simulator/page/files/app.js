// The phone of a user: it reads messages from /sim and posts the user's actions there.

import { content, el, fate, quotation, summary, ticks } from "/page/content.js";
import { startPanel } from "/page/panel.js";
import { unread } from "/page/unread.js";

const $ = (id) => document.getElementById(id);
const app = $("app"), thread = $("thread"), sheet = $("sheet");
let state = { numbers: [], users: [] };
let selected = { number: "", phone: "" };
let bubbles = new Map();
let repliedTo = null;
let typingUntil = 0;

async function ask(path, body, headers = { "Content-Type": "application/json" }) {
  const options = body === undefined ? {} : { method: "POST", headers, body: headers["Content-Type"] === "application/json" ? JSON.stringify(body) : body };
  const answer = await fetch("/sim/" + path, options);
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.error?.message ?? answer.statusText);
  return result;
}

let hiding = 0; // the timer of the toast

// notice shows a toast for five seconds, above an open sheet too.
function notice(text, failed = false) {
  const toast = $("toast");
  toast.textContent = text;
  toast.classList.toggle("failed", failed);
  toast.hidePopover();
  toast.showPopover();
  clearTimeout(hiding);
  hiding = setTimeout(() => toast.hidePopover(), 5000);
}

const showError = (error) => notice(error.message, true);
const panel = startPanel({ ask, showError });

const clock = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const day = (at) => new Date(at).toLocaleDateString([], { weekday: "long", day: "numeric", month: "long" });
const initials = (name) => name.split(/\s+/).map((word) => word[0]).slice(0, 2).join("").toUpperCase();
const tint = (text) => `hsl(${[...text].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) % 360, 7)} 45% 42%)`;
const pretty = (digits) => (/^1\d{10}$/.test(digits) ? `+1 ${digits.slice(1, 4)} ${digits.slice(4, 7)} ${digits.slice(7)}` : "+" + digits);
const user = () => state.users.find((one) => one.phone === selected.phone) ?? { phone: selected.phone, name: pretty(selected.phone) };
const number = () => state.numbers.find((one) => one.id === selected.number);

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
  const loaded = await ask("state");
  const before = state;
  state = loaded;
  for (const one of before.users.length ? state.users : []) {
    const known = before.users.find((other) => other.phone === one.phone)?.last ?? {};
    for (const last of Object.values(one.last)) if ((known[last.phone_number_id]?.at ?? "") < last.at) arrived(last);
    // Messages that arrived during the request may be newer than its answer.
    for (const [id, last] of Object.entries(known)) if ((one.last[id]?.at ?? "") < last.at) one.last[id] = last;
  }
  const chosen = selected.number && number() ? selected.number : state.numbers[0]?.id ?? "";
  $("number").replaceChildren(...state.numbers.map((n) => el("option", { value: n.id, selected: n.id === chosen })));
  selected.number = chosen;
  panel.draw(state);
  panel.changed();
  drawUsers();
}

const isOpen = (b) => b.phone_number_id === selected.number && b.phone === selected.phone && !app.classList.contains("listing");

// arrived counts a new message as unread, unless its chat is open or it is not for the user.
function arrived(b) {
  if (b.outbound && b.type !== "reaction" && b.status !== "failed" && !isOpen(b)) unread.add(b);
}

const badge = (count) => (count ? el("span", { class: "badge", "aria-label": `${count} unread` }, String(count)) : null);

// drawUnread shows how many messages wait in other chats: at the numbers, at the way back and in the title.
function drawUnread() {
  for (const option of $("number").options) {
    const n = state.numbers.find((one) => one.id === option.value);
    const count = n.id === selected.number ? 0 : unread.ofNumber(n.id);
    option.textContent = `${count ? `(${count}) ` : ""}${n.verified_name} · ${n.display_phone_number}`;
  }
  $("elsewhere").replaceChildren(...[badge(unread.all() - unread.ofNumber(selected.number))].filter(Boolean));
  $("back").querySelector(".badge")?.remove();
  $("back").append(...[badge(unread.all())].filter(Boolean));
  document.title = `${unread.all() ? `(${unread.all()}) ` : ""}Phone · simulator`;
}

function drawUsers() {
  drawUnread();
  const latest = (one) => one.last?.[selected.number]?.at ?? "";
  const sorted = [...state.users].sort((a, b) => latest(b).localeCompare(latest(a)) || a.name.localeCompare(b.name));
  replaceNodes($("people"), sorted.map((one) => {
    const last = one.last?.[selected.number];
    const preview = last?.status === "failed" ? "not delivered" : last ? summary(last) : one.username ? "@" + one.username : pretty(one.phone);
    const count = unread.of(selected.number, one.phone);
    const node = cached("person " + one.phone, [one.name, preview, last?.at, count], () =>
      el("button", { class: "person", "data-phone": one.phone, onclick: () => open(one.phone).catch(showError) },
        el("span", { class: "avatar", style: `--tint:${tint(one.name)}` }, initials(one.name)),
        el("strong", {}, one.name), el("time", {}, last ? clock(last.at) : ""), el("span", { class: "last" }, preview), badge(count)));
    node.setAttribute("aria-current", String(one.phone === selected.phone));
    return node;
  }));
}

// ---- the conversation

// open shows the chat of a user. A number that is no user's throws before anything has changed.
async function open(phone) {
  if (!state.users.some((one) => one.phone === phone)) {
    phone = (await ask("users", { phone })).phone;
    await load();
  }
  selected.phone = phone;
  location.hash = `${selected.number}/${phone}`;
  quote(null);
  typingUntil = 0;
  bubbles = new Map();
  app.classList.remove("listing");
  unread.see(selected.number, phone);
  const n = number();
  $("business").textContent = n?.verified_name ?? "";
  $("identity").textContent = `You are ${user().name} · ${pretty(phone)}`;
  $("face").textContent = initials(n?.verified_name ?? "?");
  const shown = selected.number;
  const messages = await ask(`thread?phone_number_id=${shown}&user=${phone}`);
  if (selected.number !== shown || selected.phone !== phone) return; // another chat was opened meanwhile
  // Events that arrived during the request may be newer than its answer.
  bubbles = new Map([...(messages.data ?? []).map((b) => [b.id, b]), ...bubbles]);
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
    const { status, callback, ...lasting } = b; // a new status changes the ticks only, unless it is `failed`
    const node = cached(b.id, [lasting, status === "failed", summary(bubbles.get(b.context_id) ?? {})], () => bubble(b));
    node.querySelector(".tick").replaceWith(ticks(b));
    node.querySelector(".fate").textContent = b.status === "waiting" ? "" : fate(b);
    lines.push(node);
  }
  if (typingUntil > Date.now()) lines.push(cached("typing", 0, () => el("li", { class: "typing", "aria-label": "typing" }, el("i"), el("i"), el("i"))));
  replaceNodes(thread, lines);
  settle();
}

function bubble(b) {
  const mine = !b.outbound;
  const reactions = (b.reactions ?? []).filter(Boolean);
  const earlier = b.context_id && bubbles.get(b.context_id);
  const failed = b.status === "failed";
  const node = el("li", { class: `bubble ${mine ? "mine" : ""} ${failed ? "undelivered" : ""} ${reactions.length ? "reacted" : ""}`, "data-id": b.id, "data-type": b.type },
    failed ? el("div", { class: "problem" }, el("b", {}, "Not delivered. Only the business sees this message."), b.error ? `${b.error.code}: ${b.error.title}` : null) : null,
    b.echo ? el("span", { class: "label" }, "from the business's phone") : null,
    earlier ? quoted(earlier) : null,
    b.revoked ? el("p", { class: "gone" }, "This message was deleted") : content(b, device),
    el("div", { class: "meta" }, b.edited ? "edited" : "", clock(b.at), ticks(b)),
    el("div", { class: "fate" }),
    reactions.length ? el("span", { class: "reactions" }, reactions.join(" ")) : null,
    b.revoked || failed ? null : el("button", { class: "icon act", "aria-label": "Reply or react", onclick: () => actions(b) }, "☺"));
  if (failed) node.querySelector(".taps")?.setAttribute("inert", ""); // the user cannot tap what never arrived
  return node;
}

// quoted shows the message that is replied to; a click scrolls to it.
function quoted(earlier) {
  const name = earlier.outbound ? number()?.verified_name ?? "" : user().name;
  return quotation(earlier, name, () => document.querySelector(`[data-id="${earlier.id}"]`)?.scrollIntoView({ block: "center", behavior: "smooth" }));
}

// device is what the content of a message uses when the user taps it.
const device = {
  answer: (b, type, what, more) => sendInbound(b.id, type, what, more),
  card: () => ({ name: { formatted_name: user().name }, phones: [{ phone: "+" + selected.phone, type: "CELL", wa_id: selected.phone }] }),
  choose, settle: () => settle(), copy: (text) => { navigator.clipboard?.writeText(text); notice(`Copied: ${text}`); }, notice: (text) => notice(text),
};

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
  if ($("toast").matches(":popover-open")) { // back to the top
    $("toast").hidePopover();
    $("toast").showPopover();
  }
}

// ---- actions of the user

// sendInbound has the user write, and returns whether the network accepted it.
async function sendInbound(context, type, what, more = {}) {
  const body = { phone_number_id: selected.number, from: selected.phone, type, ...more };
  if (what !== undefined) body[type] = what;
  if (context) body.context = { id: context };
  try {
    await ask("inbound", body);
    return true;
  } catch (error) {
    showError(error);
    return false;
  }
}

function actions(b) {
  const option = (text, act) => el("button", { class: "option", "data-act": text, onclick: () => { sheet.close(); act(); } }, text);
  const mine = !b.outbound;
  show(el("div", { class: "emojis" }, ["👍", "❤️", "😂", "😮", "😢", "🙏"].map((emoji) =>
    el("button", { "aria-label": emoji, onclick: () => { sheet.close(); sendInbound("", "reaction", { message_id: b.id, emoji }); } }, emoji))),
  option("Reply", () => { quote(b); $("text").focus(); }),
  b.reactions?.[0] ? option("Take the reaction back", () => sendInbound("", "reaction", { message_id: b.id, emoji: "" })) : null,
  mine && b.type === "text" ? option("Edit", () => edit(b)) : null,
  mine ? option("Delete for everyone", () => sendInbound("", "revoke", { original_message_id: b.id })) : null,
  option("Copy the id", () => navigator.clipboard?.writeText(b.id)));
}

function edit(b) {
  const words = el("textarea", { class: "words", rows: "4", "aria-label": "Text of the message" }, b.content.body);
  const save = () => {
    const body = words.value.trim();
    sheet.close();
    if (body) sendInbound("", "edit", { original_message_id: b.id, message: { type: "text", text: { body } } });
  };
  show(el("h2", {}, "Edit the message"), words, el("div", { class: "ends" },
    el("button", { class: "quiet", onclick: () => sheet.close() }, "Cancel"), el("button", { class: "main", onclick: save }, "Save")));
  words.focus();
  words.setSelectionRange(words.value.length, words.value.length);
}

function quote(b) {
  repliedTo = b;
  $("quote").hidden = !b;
  $("quote").replaceChildren(...(b ? [quoted(b), el("button", { class: "icon", "aria-label": "No reply", onclick: () => quote(null) }, "×")] : []));
}

// setText sets what is typed, and the height that it needs.
function setText(text) {
  $("text").value = text;
  fitText();
}

function fitText() {
  $("text").style.height = "auto";
  $("text").style.height = `${$("text").scrollHeight + 2}px`; // and the border
}

$("text").addEventListener("input", fitText);

// Enter sends, Shift+Enter starts a new line. A phone has no Shift key: there Enter starts a new line.
$("text").addEventListener("keypress", (event) => {
  if (event.key !== "Enter" || event.shiftKey || matchMedia("(pointer: coarse)").matches) return;
  event.preventDefault();
  $("composer").requestSubmit();
});

$("composer").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = $("text").value.trim(), answered = repliedTo;
  if (!body) return;
  setText("");
  quote(null);
  if (await sendInbound(answered?.id, "text", { body })) return;
  setText([body, $("text").value].filter(Boolean).join("\n")); // not accepted: the user may send it again
  if (answered && !repliedTo) quote(answered);
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
    if (!await sendInbound(repliedTo?.id, kind, { id: uploaded.id, caption: $("text").value.trim() || undefined })) return;
    setText("");
    quote(null);
  } catch (error) { showError(error); }
});

// A number that is not valid leaves the open chat as it is, and stays in its field.
$("newcomer").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = $("phone").value.trim();
  if (!given) return;
  try {
    await open(given);
    $("phone").value = "";
  } catch (error) { refusePhone(error.message); }
});

function refusePhone(problem) {
  $("phone").setAttribute("aria-invalid", String(problem !== ""));
  $("phone-problem").textContent = problem;
}

$("phone").addEventListener("input", () => refusePhone(""));

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
    option("New security code", "tells the business: customer_identity_changed", "system", { type: "customer_identity_changed" }),
    el("button", { class: "option", "data-act": "Callbacks", onclick: () => { sheet.close(); panel.toggle(true); } }, "Callbacks and switches", el("small", {}, "delay, drop or double callbacks, move the clock")));
});

sheet.addEventListener("click", (event) => { if (event.target === sheet) sheet.close(); });

// ---- events from the simulator

function applyMessage(b, isNew) {
  const one = state.users.find((candidate) => candidate.phone === b.phone);
  if (!one) return void load().catch(showError);
  const last = one.last?.[b.phone_number_id];
  if (isNew && last?.id !== b.id && (last?.at ?? "") <= b.at) arrived(b);
  if (b.status === "failed") unread.remove(b);
  if (last?.id === b.id || (isNew && (last?.at ?? "") <= b.at)) one.last = { ...one.last, [b.phone_number_id]: b };
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
  events.addEventListener("callback", () => panel.changed());
  events.addEventListener("state", () => load().catch(showError));
  events.addEventListener("reset", () => { unread.clear(); state.users = []; again(); });
  events.addEventListener("typing", (event) => {
    const typing = JSON.parse(event.data);
    if (typing.phone_number_id !== selected.number || typing.phone !== selected.phone) return;
    typingUntil = Date.now() + 25000;
    draw();
    setTimeout(() => draw(), 25100);
  });
  events.onerror = () => { $("live").textContent = "reconnecting"; $("live").classList.remove("on"); };
}

const [numberID, digits] = location.hash.slice(1).split("/");
selected.number = numberID;
load().then(() => (digits ? open(digits) : null)).catch(showError).then(listen);
