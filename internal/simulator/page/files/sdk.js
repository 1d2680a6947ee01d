// Replaces the network's own script: FB.init and FB.login. The signup dialog is that of the
// simulator that served this file.
(() => {
  const origin = new URL(document.currentScript.src).origin;
  let settings = {};

  function login(callback, options = {}) {
    const query = new URLSearchParams({
      client_id: settings.appId ?? "", config_id: options.config_id ?? "", response_type: options.response_type ?? "code",
      display: "popup", extras: JSON.stringify(options.extras ?? {}),
    });
    const popup = window.open(`${origin}/${settings.version ?? "v24.0"}/dialog/oauth?${query}`, "signup", "width=520,height=760");
    const done = (answer) => {
      window.removeEventListener("message", heard);
      clearInterval(watch);
      callback(answer);
    };
    const heard = (event) => {
      if (event.origin !== origin || event.data?.type !== "login") return;
      done(event.data.code ? { authResponse: { code: event.data.code }, status: "connected" } : { authResponse: null, status: "unknown" });
    };
    const watch = setInterval(() => { if (!popup || popup.closed) done({ authResponse: null, status: "unknown" }); }, 500);
    window.addEventListener("message", heard);
  }

  window.FB = { init: (given) => { settings = given; }, login, getLoginStatus: (callback) => callback({ status: "unknown" }) };
  if (typeof window.fbAsyncInit === "function") window.fbAsyncInit();
})();
