// The panel beside the phone: the switches of the network, and the latest callbacks with their answers.

import { el } from "/page/content.js";

const $ = (id) => document.getElementById(id);
const shown = 50; // callbacks
const hours25 = 25 * 3600;

// startPanel connects the panel. ask calls /sim, showError shows what failed.
export function startPanel({ ask, showError }) {
  const panel = $("panel");
  let waiting = false; // for the next refresh
  let nodes = new Map();

  async function refresh() {
    if (panel.hidden) return;
    const [posts, stats] = await Promise.all([ask(`callbacks?latest=true&limit=${shown}`), ask("stats")]);
    $("counts").textContent = `${stats.posted} posted · ${stats.waiting} waiting · ${stats.lost + stats.given_up} dropped`;
    const before = nodes;
    nodes = new Map(posts.data.map((post) => [post.id, line(post, before.get(post.id))]));
    $("callbacks").replaceChildren(...[...nodes.values()].map((one) => one.node));
    $("no-callbacks").hidden = posts.data.length > 0;
  }

  // changed refreshes soon; many callbacks cause one refresh.
  function changed() {
    if (panel.hidden || waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; refresh().catch(showError); }, 200);
  }

  function toggle(open = panel.hidden) {
    panel.hidden = !open;
    $("app").classList.toggle("with-panel", open);
    $("tools").setAttribute("aria-expanded", String(open));
    refresh().catch(showError);
  }

  const set = (name, read) => $(name).addEventListener("change", () => {
    ask("settings", read($(name))).catch(showError);
  });
  set("delay", (field) => ({ callback_delay_ms: Math.round(Math.max(0, Number(field.value)) * 1000) }));
  set("drop", (field) => ({ drop: field.checked ? 1 : 0 }));
  set("duplicate", (field) => ({ duplicate: field.checked ? 1 : 0 }));
  $("forward").addEventListener("click", () => ask("clock", { advance_seconds: hours25 }).catch(showError));
  $("switches").addEventListener("submit", (event) => event.preventDefault());
  $("tools").addEventListener("click", () => toggle());
  $("close").addEventListener("click", () => toggle(false));

  // draw shows the switches as the network has them.
  function draw({ settings, now }) {
    if (document.activeElement !== $("delay")) $("delay").value = settings.callback_delay_ms / 1000;
    for (const name of ["drop", "duplicate"]) {
      const share = settings[name];
      $(name).checked = share === 1;
      $(name).indeterminate = share > 0 && share < 1;
      $(`${name}-share`).textContent = share > 0 && share < 1 ? ` (now ${Math.round(share * 100)} % of them)` : "";
    }
    const ahead = Math.round((new Date(now) - Date.now()) / 360000) / 10; // hours
    $("network-time").textContent = new Date(now).toLocaleString([], { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" })
      + (Math.abs(ahead) >= 0.1 ? ` (${ahead > 0 ? "+" : ""}${ahead} h)` : "");
  }

  return { changed, draw, toggle };
}

// line shows a callback. An unchanged one keeps its element, and a changed one stays open.
function line(post, before) {
  const key = `${post.attempt} ${post.fate}`;
  if (before?.key === key) return before;
  const retries = Math.max(0, post.attempt - 1);
  const answer = post.attempt === 0 ? "not posted" : post.status || "no answer";
  const node = el("details", { class: "callback", "data-fate": post.fate, "data-retries": String(retries) },
    el("summary", {}, el("time", {}, new Date(post.at).toLocaleTimeString()), el("span", { class: "what" }, subject(post.body)),
      el("b", { class: "answer" }, String(answer)),
      retries ? el("small", { class: "retries" }, retries === 1 ? "1 retry" : `${retries} retries`) : null,
      post.fate === "answered" ? null : el("small", { class: "next" }, next(post))),
    el("pre", { tabindex: "0" }, JSON.stringify(post.body, null, 2)));
  node.open = before?.node.open ?? false;
  return { key, node };
}

const next = (post) => (post.fate === "retrying" ? `again at ${new Date(post.retry_at).toLocaleTimeString()}` : post.error || "given up");

// subject names what a callback is about.
function subject(body) {
  const changes = (body.entry ?? []).flatMap((entry) => entry.changes ?? []);
  const value = changes[0]?.value ?? {};
  const about = value.messages ? `message: ${value.messages[0]?.type}` : value.statuses ? `status: ${value.statuses[0]?.status}` : changes[0]?.field ?? "";
  return changes.length > 1 ? `${about} and ${changes.length - 1} more` : about;
}
