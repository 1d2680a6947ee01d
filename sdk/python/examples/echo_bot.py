"""Answers each text with the same text. It needs the variables that `parley dev` prints; Ctrl-C stops it."""

import http.server
import os
import signal

import parley

client = parley.Parley(os.environ["PARLEY_KEY"], os.environ["PARLEY_URL"])
secrets: list[str] = []


def answer(event: parley.WebhookEvent) -> None:
    for entry in event.body["entry"]:
        for change in entry["changes"]:
            value = change["value"]
            for message in value.get("messages", []):
                if message["type"] != "text":
                    continue
                # A person who hides the number is addressed by the user id.
                address = {"to": message["from"]} if "from" in message else {"recipient": message["from_user_id"]}
                client.send_message(
                    value["metadata"]["phone_number_id"],
                    {
                        "messaging_product": "chat",
                        **address,
                        "type": "text",
                        "text": {"body": message["text"]["body"]},
                    },
                    # An event may come twice; its uid is the same then, so that it is answered once.
                    idempotency_key=f"echo-{event.uid}",
                )
                print("echoed", message["text"]["body"], flush=True)


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = 204
        try:
            answer(parley.verify_webhook(self.headers, body, secrets))
        except parley.WebhookError as refused:
            print("refused:", refused, flush=True)
            status = 401
        except parley.ParleyError as failed:
            print("failed:", failed, flush=True)
            status = 503  # Parley posts the event again
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object, **__: object) -> None:
        pass


def stop(*_: object) -> None:
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, stop)
with http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Receiver) as server:
    url = f"http://127.0.0.1:{server.server_port}"
    subscription = client.create_subscription({"url": url, "events": ["message.received"]})["data"]
    secrets.append(subscription.get("initial_secret", ""))
    print("listening on", url, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        client.delete_subscription(subscription["id"])
