"""The Python SDK of Parley."""

from . import types
from ._core import List, Upload
from ._operations import Operations
from ._version import VERSION
from .errors import (
    APIError,
    AuthenticationError,
    ConflictError,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    ParleyError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
)
from .webhooks import WebhookError, WebhookEvent, verify_webhook

__version__ = VERSION


class Parley(Operations):
    """The client: one method for each operation of the contract. It may be used by several threads."""


__all__ = [
    "APIError",
    "AuthenticationError",
    "ConflictError",
    "InvalidRequestError",
    "List",
    "NetworkError",
    "NotFoundError",
    "Parley",
    "ParleyError",
    "PermissionDeniedError",
    "RateLimitError",
    "ServerError",
    "Upload",
    "WebhookError",
    "WebhookEvent",
    "types",
    "verify_webhook",
]
