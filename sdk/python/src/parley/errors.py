"""The errors that this SDK raises. All are ParleyError; a wrong argument is a ValueError."""

from __future__ import annotations

import json
from typing import Any


class ParleyError(Exception):
    """The base of all errors of this SDK."""


class NetworkError(ParleyError):
    """No whole answer came: the connection failed, was cut, or timed out. `__cause__` says why."""


class APIError(ParleyError):
    """The API answered with an error. Branch on `code`; docs/errors.md lists the codes."""

    def __init__(self, status: int, error: dict[str, Any], retry_after: int | None = None) -> None:
        self.status = status
        self.type: str = error["type"]
        self.code: str = error.get("code", "")  # empty when the answer is not one of Parley's
        self.message: str = error.get("message", "")
        self.param: str | None = error.get("param")
        self.request_id: str | None = error.get("request_id")
        self.retry_after = retry_after  # seconds
        super().__init__(f"{status} {self.code or self.type}: {self.message} ({self.request_id})")


class InvalidRequestError(APIError):
    """The request is wrong; `param` says where."""


class AuthenticationError(APIError):
    """The key is missing, unknown, revoked or expired."""


class PermissionDeniedError(APIError):
    """The plan, the subscription or the state of the organization does not allow it."""


class NotFoundError(APIError):
    """There is no such resource in the organization."""


class ConflictError(APIError):
    """The state of the resource does not allow it now."""


class RateLimitError(APIError):
    """Requests come faster than the plan allows."""


class ServerError(APIError):
    """A fault of the API or of the network behind it."""


_CLASSES = {
    "invalid_request_error": InvalidRequestError,
    "authentication_error": AuthenticationError,
    "permission_error": PermissionDeniedError,
    "not_found": NotFoundError,
    "conflict": ConflictError,
    "rate_limit_error": RateLimitError,
    "api_error": ServerError,
}
_TYPES = {
    401: "authentication_error",
    402: "permission_error",
    403: "permission_error",
    404: "not_found",
    409: "conflict",
    429: "rate_limit_error",
}


def from_answer(status: int, body: bytes, retry_after: int | None) -> APIError:
    """The error of an answer. One that is not Parley's, as of a proxy, gets its type by the status."""
    try:
        error = json.loads(body)["error"]
        found = _CLASSES[error["type"]]
    except (ValueError, KeyError, TypeError):
        fallback = "invalid_request_error" if 400 <= status < 500 else "api_error"
        error = {"type": _TYPES.get(status, fallback), "message": f"HTTP {status}, not an answer of Parley"}
        found = _CLASSES[error["type"]]
    return found(status, error, retry_after)
