"""Verifies webhooks before you believe them."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .errors import ParleyError

Kind = Literal[
    "no_secret",
    "missing_header",
    "malformed_header",
    "bad_timestamp",
    "too_old",
    "in_the_future",
    "no_match",
    "malformed_body",
]

_TEXTS: dict[Kind, str] = {
    "no_secret": "No secret was given, or an empty one.",
    "missing_header": "The request has no X-Svc-Signature.",
    "malformed_header": "X-Svc-Signature has not the form t=<unix seconds>,v1=<hex>.",
    "bad_timestamp": "The time in X-Svc-Signature is not a number of seconds.",
    "too_old": "The signature is older than the tolerance: an old delivery, or a wrong clock here.",
    "in_the_future": "The signature's time is later than now: the clock here is wrong.",
    "no_match": "No signature matches: another secret, a changed body, or a forgery.",
    "malformed_body": "The body is not JSON.",
}


class Headers(Protocol):
    """The headers of a request: a dictionary, or what a web framework has. Names may be in any case."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class WebhookError(ParleyError):
    """The webhook must not be believed; `kind` says why. Answer it with 401."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        super().__init__(_TEXTS[kind])


@dataclass(frozen=True)
class WebhookEvent:
    """A verified event."""

    type: str  # such as message.received
    uid: str  # equal over retries and replays: dedupe on it
    id: str  # the event's key in its domain
    delivery_id: str
    attempt: int  # 1 for the first attempt of this delivery
    source: str  # provider, or svc
    body: Any  # one of the ...Event types of parley.types


def verify_webhook(
    headers: Headers,
    body: bytes,
    secrets: str | Iterable[str],
    *,
    tolerance: float = 300,
    clock: Callable[[], float] = time.time,
) -> WebhookEvent:
    """Returns the event if any signature matches any of the secrets, and raises WebhookError if not.

    body must be the raw bytes as they came. tolerance is the largest difference in seconds between
    the signature's time and the clock.
    """
    given = {name.lower(): value for name, value in headers.items()}
    _verify(given.get("x-svc-signature"), body, secrets, tolerance, int(clock()))
    try:
        event = json.loads(body)
    except ValueError:
        raise WebhookError("malformed_body") from None
    attempt = given.get("x-svc-attempt", "")
    return WebhookEvent(
        type=given.get("x-svc-event", ""),
        uid=given.get("x-svc-event-uid", ""),
        id=given.get("x-svc-event-id", ""),
        delivery_id=given.get("x-svc-delivery-id", ""),
        attempt=int(attempt) if re.fullmatch("[0-9]{1,9}", attempt) else 0,
        source=given.get("x-svc-source", ""),
        body=event,
    )


def _verify(header: str | None, body: bytes, secrets: str | Iterable[str], tolerance: float, now: int) -> None:
    keys = [secrets] if isinstance(secrets, str) else list(secrets)
    if not keys or "" in keys:
        raise WebhookError("no_secret")  # anyone could sign with an empty one
    if not header:
        raise WebhookError("missing_header")
    parts = re.fullmatch(r"t=([^,]*)((?:,v1=[0-9a-f]{64})+)", header)
    if parts is None:
        raise WebhookError("malformed_header")
    if not re.fullmatch("[0-9]{1,11}", parts[1]):
        raise WebhookError("bad_timestamp")
    if now - int(parts[1]) > tolerance:
        raise WebhookError("too_old")
    if int(parts[1]) - now > tolerance:
        raise WebhookError("in_the_future")
    signed = parts[1].encode() + b"." + body
    signatures = parts[2].split(",v1=")[1:]
    matches = False
    for key in keys:
        expected = hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()
        for signature in signatures:
            matches |= hmac.compare_digest(signature, expected)
    if not matches:
        raise WebhookError("no_match")
