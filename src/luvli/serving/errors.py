"""What the server says when it does not answer: a status, a word for programs, a sentence."""

from __future__ import annotations

import math
from typing import Any

from luvli.errors import InputError


class Refused(InputError):
    """A request that is not answered, and why; never holds anything of the image."""

    def __init__(
        self, status: int, code: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """The JSON that is sent."""
        return {"error": {"code": self.code, "message": self.message}}

    def headers(self) -> dict[str, str]:
        """Retry-After in whole seconds, where trying again makes sense."""
        if self.retry_after is None:
            return {}
        return {"Retry-After": str(max(1, math.ceil(self.retry_after)))}


def busy(
    message: str = "the server is busy: try again in a moment.", retry_after: float = 1
) -> Refused:
    """503: a bound of the server as a whole is reached."""
    return Refused(503, "busy", message, retry_after)


def too_large(message: str) -> Refused:
    """413: more than one request may bring."""
    return Refused(413, "too_large", message)


def unusable(message: str) -> Refused:
    """422: an image or an option that cannot be used."""
    return Refused(422, "unusable", message)
