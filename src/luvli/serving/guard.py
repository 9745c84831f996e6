"""The door: who may ask, what every answer carries, and what nobody gets to see.

A plain ASGI wrapper around the application. It refuses requests of other web sites and, where
tokens are set, requests without one; adds the security headers; turns every error into one
sentence; writes one log line without address, query or anything of the image.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from luvli.serving.errors import Refused
from luvli.serving.metrics import Metrics
from luvli.serving.settings import ServerSettings, is_loopback

log = logging.getLogger("luvli.serving")

OPEN_PATHS = ("/", "/docs", "/healthz", "/readyz", "/openapi.json")
"""served without a token, beside the page's own files: they show nothing of anybody"""
PAGE = "/page/"

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """Wraps the application; `direct` are paths whose POST requests go past its routes."""

    def __init__(
        self, app: Any, settings: ServerSettings, metrics: Metrics, direct: Mapping[str, Any]
    ) -> None:
        self.app = app
        self.direct = direct
        self.settings = settings
        self.metrics = metrics
        self._tokens = [token.encode() for token in settings.tokens]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        start = time.monotonic()
        status = 0
        head: Any = None

        async def send_guarded(message: Any) -> None:
            nonlocal status, head
            if message["type"] == "http.response.start":
                head = message  # goes out with the first bytes of the body
                return
            # a client that does not take its answer is not waited for
            async with asyncio.timeout(self.settings.limits.send_seconds):
                if head is not None:
                    status, first, head = head["status"], _with_headers(head), None
                    await send(first)
                await send(message)

        try:
            self._check(scope)
            direct = self.direct.get(scope["path"]) if scope["method"] == "POST" else None
            await (direct or self.app)(scope, receive, send_guarded)
        except Refused as refused:
            await _refuse(send_guarded, refused)
        except TimeoutError:
            status = status or 499
        except Exception:
            log.exception("internal error")
            if not status:
                await _refuse(
                    send_guarded,
                    Refused(500, "internal", "something went wrong on the server."),
                )
        finally:
            seconds = time.monotonic() - start
            path = _series(scope["path"])
            self.metrics.request(path, status or 499)
            if path == "/v1/predict" and status == 200:
                self.metrics.observe("luvli_request_seconds", seconds)
            log.info("%s %s %d %.1f ms", scope["method"], path, status or 499, seconds * 1e3)

    async def _websocket(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            self._check(scope)
        except Refused:
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        await self.app(scope, receive, send)

    def _check(self, scope: Any) -> None:
        headers = dict(scope["headers"])
        if self._tokens:
            path = scope["path"]
            if path in OPEN_PATHS or path.startswith(PAGE):
                return
            if not self._has_token(headers):
                raise Refused(401, "token_missing", "this server asks for a bearer token.")
            return  # whoever has the token is no other web site's script
        host = headers.get(b"host", b"").decode("latin-1")
        if self.settings.is_local and not is_loopback(_host_name(host)):
            # a name of the attacker's that points to this machine (DNS rebinding)
            raise Refused(421, "wrong_host", "this server answers to localhost only.")
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin.decode("latin-1")).netloc != host:
            raise Refused(403, "other_site", "requests of other web sites are not answered.")
        if headers.get(b"sec-fetch-site") == b"cross-site" and scope["path"].startswith("/v1/"):
            raise Refused(403, "other_site", "requests of other web sites are not answered.")

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"bearer":
            # scripts in a browser cannot set headers of a WebSocket, but its protocols
            offered = headers.get(b"sec-websocket-protocol", b"").split(b",")
            given = next(
                (word.strip()[7:] for word in offered if word.strip().startswith(b"bearer.")), b""
            )
        found = False
        for token in self._tokens:  # all of them, so that time tells nothing
            found |= hmac.compare_digest(given.strip(), token)
        return found


def _with_headers(message: Any) -> Any:
    headers = [*message.get("headers", []), *_HEADERS]
    if not any(name == b"cache-control" for name, _ in headers):
        headers.append((b"cache-control", b"no-store"))
    return {**message, "headers": headers}


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0][1:]
    return host.rpartition(":")[0] or host


def _series(path: str) -> str:
    if path in ("/v1/predict", "/v1/models"):
        return path
    return "page" if path == "/" or path.startswith(PAGE) else "other"


async def _refuse(send: Any, refused: Refused) -> None:
    body = json.dumps(refused.body()).encode()
    extra = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **refused.headers(),
    }
    if refused.status == 401:
        extra["WWW-Authenticate"] = "Bearer"
    if refused.status == 408:
        extra["connection"] = "close"
    headers = [(name.lower().encode(), value.encode()) for name, value in extra.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
