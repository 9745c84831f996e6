"""What the server answers when it refuses: a status, a code for programs, a sentence."""

from __future__ import annotations

from fastapi.responses import JSONResponse

from luvli.errors import InputError

HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}


class Refused(InputError):
    """A request that is refused, and why; the message never quotes the image."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": code, "message": message}}

    def response(self) -> JSONResponse:
        """The answer."""
        return JSONResponse(self.body, self.status, HEADERS.get(self.status))


def refusal(error: InputError) -> Refused:
    """The answer to any bad input."""
    return error if isinstance(error, Refused) else unusable(str(error))


def busy(message: str = "the server is busy: try again in a moment.") -> Refused:
    """503: a limit of the server as a whole is reached."""
    return Refused(503, "busy", message)


def too_large(message: str) -> Refused:
    """413: more than one request may hold."""
    return Refused(413, "too_large", message)


def unusable(message: str) -> Refused:
    """422: an image or an option that cannot be used."""
    return Refused(422, "unusable", message)
