"""How every request is made: headers, retries, errors, pages."""

from __future__ import annotations

import email.message
import http.client
import itertools
import json
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from . import errors
from ._version import VERSION

FIRST_WAIT = 0.5  # seconds before the second attempt; doubles with each further one
LONGEST_WAIT = 8.0  # seconds; Retry-After may ask for more
RETRIED = {429, 500, 502, 503, 504}

T = TypeVar("T")
P = TypeVar("P")
Query = Mapping[str, "str | int | bool | None"]


@dataclass(frozen=True)
class Upload:
    """A file for the library, with the other fields of the form."""

    filename: str
    content: bytes
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: email.message.Message
    body: bytes


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is not followed, so that the key never goes to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Core:
    """Makes requests.

    timeout is the number of seconds that one attempt may wait for the network, max_retries the number
    of attempts after the first, and max_elapsed the number of seconds after which no further attempt
    starts. Tests inject clock (seconds), sleep and rand (0 to 1).
    """

    def __init__(
        self,
        api_key: str,
        base_url: str,
        *,
        timeout: float = 30.0,
        max_retries: int = 4,
        max_elapsed: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        rand: Callable[[], float] = random.random,
    ) -> None:
        if not api_key or not base_url:
            raise ValueError("api_key and base_url must not be empty")
        self._base_url = base_url.rstrip("/")
        self._headers = {
            "Authorization": f"Bearer {api_key}",
            "Accept": "application/json",
            "User-Agent": f"parley-python/{VERSION}",
        }
        self._timeout, self._max_retries, self._max_elapsed = timeout, max_retries, max_elapsed
        self._clock, self._sleep, self._rand = clock, sleep, rand
        self._opener = urllib.request.build_opener(_NoRedirect)

    def request(
        self,
        method: str,
        path: Sequence[str],
        *,
        query: Query | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Makes a request that has no method of its own, and returns the JSON of its answer.

        path is the list of the segments after /v1; each is escaped.
        """
        answer = self._send(method, path, query, body, idempotency_key)
        try:
            return json.loads(answer.body)
        except ValueError:
            error = {"type": "api_error", "message": "The answer is not JSON."}
            raise errors.ServerError(answer.status, error) from None

    def location(self, method: str, path: Sequence[str]) -> str:
        """Makes a request that is answered with a redirect, and returns where it leads."""
        return self._send(method, path, None, None, None, redirect=True).headers["Location"]

    def _send(
        self,
        method: str,
        path: Sequence[str],
        query: Query | None,
        body: Any,
        idempotency_key: str | None,
        redirect: bool = False,
    ) -> _Answer:
        data, content_type = _encoded(body)
        request = urllib.request.Request(self._url(path, query), data, self._headers, method=method)
        if content_type:
            request.add_header("Content-Type", content_type)
        if method == "POST":
            # The key is the same in all attempts, so that the effect happens once.
            request.add_header("Idempotency-Key", idempotency_key or str(uuid.uuid4()))
        began = self._clock()
        for attempt in itertools.count():
            error: errors.NetworkError | errors.APIError
            try:
                answer = self._attempt(request)
                if 200 <= answer.status < 300 or redirect and answer.status == 302:
                    return answer
                error = errors.from_answer(answer.status, answer.body, _retry_after(answer.headers))
            except (OSError, http.client.HTTPException) as cause:
                error = errors.NetworkError(f"{method} {request.full_url}: {cause}")
                error.__cause__ = cause
            wait = self._wait(error, attempt)
            over = attempt >= self._max_retries or self._clock() - began + wait > self._max_elapsed
            if over or not _can_be_retried(error):
                raise error
            self._sleep(wait)
        raise AssertionError  # count() does not end

    def _attempt(self, request: urllib.request.Request) -> _Answer:
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return _Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return _Answer(refusal.code, refusal.headers, refusal.read())

    def _wait(self, error: errors.NetworkError | errors.APIError, attempt: int) -> float:
        """Seconds before the next attempt. The random part keeps clients from coming back together."""
        if isinstance(error, errors.APIError) and error.retry_after is not None:
            return error.retry_after + FIRST_WAIT * self._rand()
        full = min(FIRST_WAIT * 2**attempt, LONGEST_WAIT)
        return full / 2 + full / 2 * self._rand()

    def _url(self, path: Sequence[str], query: Query | None) -> str:
        for segment in path:
            if segment in ("", ".", ".."):
                raise ValueError(f"an id or name in the path must not be {segment!r}")
        url = self._base_url + "".join("/" + urllib.parse.quote(segment, safe="") for segment in path)
        given = {name: _plain(value) for name, value in (query or {}).items() if value is not None}
        return f"{url}?{urllib.parse.urlencode(given)}" if given else url


class List(Generic[T, P]):
    """A list of the API: iterate over it to get all items; pages are fetched as they are needed."""

    def __init__(self, core: Core, path: Sequence[str], *, query: Query) -> None:
        self._core, self._path, self._query = core, path, dict(query)

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page["data"]  # type: ignore[index]

    def page(self) -> P:
        """The page at `cursor`, or the first one."""
        return next(self.pages())

    def pages(self) -> Iterator[P]:
        query = dict(self._query)
        while True:
            page = self._core.request("GET", self._path, query=query)
            yield page
            if not page["has_more"]:
                return
            if page["next_cursor"] in (None, "", query.get("cursor")):
                error = {"type": "api_error", "message": "has_more is true, but next_cursor leads nowhere."}
                raise errors.ServerError(200, error)
            query["cursor"] = page["next_cursor"]


def _can_be_retried(error: errors.NetworkError | errors.APIError) -> bool:
    if isinstance(error, errors.NetworkError):
        return True
    return error.status in RETRIED or error.code == "idempotency_in_progress"


def _retry_after(headers: email.message.Message) -> int | None:
    value = headers.get("Retry-After", "")
    return int(value) if re.fullmatch("[0-9]{1,9}", value) else None


def _plain(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _encoded(body: Any) -> tuple[bytes | None, str | None]:
    """The bytes of a body and their content type."""
    if body is None:
        return None, None
    if isinstance(body, Upload):
        return _form(body)
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(), "application/json"


def _form(upload: Upload) -> tuple[bytes, str]:
    boundary = uuid.uuid4().hex
    parts = {f'"{_form_name(name)}"': value.encode() for name, value in upload.fields.items()}
    parts[f'"file"; filename="{_form_name(upload.filename)}"'] = upload.content
    lines = b""
    for name, content in parts.items():
        head = f"--{boundary}\r\nContent-Disposition: form-data; name={name}\r\n\r\n"
        lines += head.encode() + content + b"\r\n"
    return lines + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def _form_name(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return escaped.replace("\r", "%0D").replace("\n", "%0A")
