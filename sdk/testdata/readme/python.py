# The code blocks of sdk/python/README.md are inserted below, and then run by `make sdk`.
import hashlib
import hmac
import os
import time
from types import SimpleNamespace

api_key, base_url = os.environ["PARLEY_KEY"], os.environ["PARLEY_URL"]
number = os.environ["PARLEY_NUMBER"]
secrets = ["old", "new"]
body = b'{"type":"contact.created","data":{"contact":{"id":"con_1"}}}'
now = str(int(time.time()))
signature = hmac.new(b"new", now.encode() + b"." + body, hashlib.sha256).hexdigest()
request = SimpleNamespace(headers={
    "X-Svc-Signature": f"t={now},v1={signature}", "X-Svc-Event": "contact.created", "X-Svc-Event-Uid": "evt_1",
})
# README
