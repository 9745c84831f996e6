"""What the server answers when it refuses: a status, a code for programs, a sentence."""

from __future__ import annotations

from fastapi.responses import JSONResponse

from luvli.errors import InputError

STATUS = {
    "bad_request": 400, "token_missing": 401, "token_wrong": 401, "other_site": 403,
    "not_found": 404, "unknown_model": 404, "not_allowed": 405, "not_acceptable": 406, "slow": 408,
    "too_large": 413, "not_an_image": 415, "wrong_host": 421, "unusable": 422, "internal": 500,
    "busy": 503,
}  # fmt: skip
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}


class Refused(InputError):
    """A request that is refused: a code of `STATUS`, and a sentence that never quotes the image."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.status = STATUS[code]
        self.body = {"error": {"code": code, "message": message}}

    def response(self) -> JSONResponse:
        """The answer."""
        return JSONResponse(self.body, self.status, HEADERS.get(self.status))


def refusal(error: InputError) -> Refused:
    """The answer to any bad input."""
    return error if isinstance(error, Refused) else Refused("unusable", str(error))
