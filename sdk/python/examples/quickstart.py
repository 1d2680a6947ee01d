"""Sends a message, receives its message.sent event as a verified webhook, waits until the message is
delivered and lists the conversation. It needs the variables that `parley dev` prints."""

import http.server
import os
import queue
import threading
import time

import parley

client = parley.Parley(os.environ["PARLEY_KEY"], os.environ["PARLEY_URL"])
number = os.environ["PARLEY_NUMBER"]
events: queue.Queue[parley.WebhookEvent] = queue.Queue()
secrets: list[str] = []


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            events.put(parley.verify_webhook(self.headers, body, secrets))
            self.send_response(204)
        except parley.WebhookError:
            self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object, **__: object) -> None:
        pass


# Subscribe to an event, and receive it here.
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
subscription = client.create_subscription(
    {"url": f"http://127.0.0.1:{server.server_port}", "events": ["message.sent"]}
)["data"]
secrets.append(subscription.get("initial_secret", ""))

# Send a message. The client makes an Idempotency-Key and retries, so that it is sent once.
message = client.send_message(
    number,
    {"messaging_product": "chat", "to": "+15550100001", "type": "text", "text": {"body": "Hello from Python"}},
)["data"]
print("accepted", message["id"])

told = ""
while told != message["id"]:
    event = events.get(timeout=60)
    told = event.body["data"]["message"]["id"]
    print("verified", event.type, event.uid)

while message["status"] not in ("delivered", "read"):
    time.sleep(0.2)
    message = client.get_message(number, message["id"])["data"]
print("status", message["status"])

for one in client.list_messages(number, conversation_id=message["conversation_id"], limit=1):
    print("listed", one["id"], one["direction"], one["status"])
client.delete_subscription(subscription["id"])
