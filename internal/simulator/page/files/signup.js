// The signup dialog: a business chooses what to connect. The code goes to the page that opened
// the dialog, by postMessage, or to the redirect_uri.

const $ = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const extras = JSON.parse(query.get("extras") || "{}");

async function ask(path, body) {
  const answer = await fetch("/sim/" + path, body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {});
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.error.message);
  return result;
}

function option(value, text) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = text;
  return made;
}

// back hands the code and the session data to the opener, or redirects.
function back(code, session) {
  if (window.opener) {
    window.opener.postMessage(JSON.stringify({ type: "WA_EMBEDDED_SIGNUP", version: "3", ...session }), "*");
    window.opener.postMessage({ type: "login", code }, "*");
    window.close();
    return;
  }
  const to = query.get("redirect_uri");
  if (!to) {
    $("note").textContent = code ? `Done. The code, for 30 seconds: ${code}` : "Cancelled.";
    return;
  }
  const target = new URL(to);
  if (code) target.searchParams.set("code", code);
  else for (const [name, value] of Object.entries({ error: "access_denied", error_reason: "user_denied" })) target.searchParams.set(name, value);
  if (query.get("state")) target.searchParams.set("state", query.get("state"));
  location.href = target;
}

async function finish(event) {
  event.preventDefault();
  const chosen = $("number").value;
  const kind = $("kind").value;
  try {
    const done = await ask("signup", {
      app_id: query.get("client_id"), waba_id: chosen ? "" : $("account").value, phone_number_id: chosen, business_name: $("name").value,
      phone_number: $("phone").value, only_waba: kind === "account", coexistence: kind === "coexistence",
    });
    back(done.code, { event: done.event, data: done.data });
  } catch (error) { $("note").textContent = error.message; }
}

$("form").addEventListener("submit", finish);
$("cancel").addEventListener("click", () => back("", { event: "CANCEL", data: { current_step: "PHONE_NUMBER_SETUP" } }));
$("fail").addEventListener("click", () => back("", {
  event: "CANCEL", data: { error_message: "Something went wrong", error_id: "524126", session_id: crypto.randomUUID(), timestamp: String(Math.floor(Date.now() / 1000)) },
}));
$("account").addEventListener("change", () => { $("name").disabled = $("account").value !== ""; });

const state = await ask("state");
$("account").append(option("", "A new business account"), ...state.accounts.map((one) => option(one.id, `${one.name} (${one.id})`)));
$("number").append(option("", "A new number"), ...state.numbers.map((one) => option(one.id, `${one.display_phone_number} · ${one.status}`)));
$("name").value = extras.setup?.business?.name ?? "My Business";
$("phone").value = extras.setup?.business?.phone?.number ?? "";
if (extras.featureType === "whatsapp_business_app_onboarding") $("kind").value = "coexistence";
