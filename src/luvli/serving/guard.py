"""The middleware: tokens, Host and Origin checks, security headers, counts of requests."""

from __future__ import annotations

import hmac
import logging
import time
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect

from luvli.serving.errors import Refused
from luvli.serving.metrics import Metrics
from luvli.serving.settings import LOOPBACK, ServerSettings

log = logging.getLogger("luvli.serving")

OPEN_PATHS = ("/", "/docs", "/healthz", "/readyz", "/openapi.json")
"""answered without a token, beside the files of the page"""
PIECE = 1 << 16
"""bytes of an answer that are sent at a time: each waits until the client has read most of those
before, so that what is counted as memory is given back when it is free"""
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


class Guard:
    """Wraps the application."""

    def __init__(self, app: Any, settings: ServerSettings, metrics: Metrics) -> None:
        self.app = app
        self._settings = settings
        self._metrics = metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        refused = None if scope["type"] == "lifespan" else self._refusal(scope)
        if scope["type"] == "http":
            if scope["method"] == "HEAD":  # some load balancers ask so; uvicorn leaves the body out
                scope = {**scope, "method": "GET"}
            await self._http(refused.response() if refused else self.app, scope, receive, send)
        elif refused:
            await send({"type": "websocket.close"})  # before it was accepted: answered with 403
        else:
            await self.app(scope, receive, send)

    async def _http(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        start, status = time.monotonic(), 0

        async def send_guarded(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # files of the page have an ETag: the browser asks again and gets 304
                headers.setdefault("Cache-Control", "no-cache" if "etag" in headers else "no-store")
            body = message.get("body", b"")
            while len(body) > PIECE:
                await send({**message, "body": body[:PIECE], "more_body": True})
                body = body[PIECE:]
            await send({**message, "body": body} if body else message)

        try:
            await app(scope, receive, send_guarded)
        except ClientDisconnect:
            pass
        except Exception:
            log.exception("internal error")
            if not status:
                error = Refused("internal", "something went wrong on the server.")
                await error.response()(scope, receive, send_guarded)
        path = scope["path"] if scope["path"] in ("/v1/predict", "/v1/models") else "other"
        self._metrics.requests.labels(path, status or 499).inc()
        if path == "/v1/predict" and status == 200:
            self._metrics.request_seconds.observe(time.monotonic() - start)

    def _refusal(self, scope: Any) -> Refused | None:
        """Why this server must not answer a request; None: it may."""
        headers, path = Headers(scope=scope), scope["path"]
        if self._settings.tokens:  # which scripts of other web sites do not have
            open_to_all = path in OPEN_PATHS or path.startswith("/page/")
            return None if open_to_all else self._token_refusal(headers)
        host = headers.get("host", "")
        if self._settings.host in LOOPBACK and _split(f"//{host}").hostname not in LOOPBACK:
            # a name that an attacker has pointed to this machine (DNS rebinding)
            return Refused("wrong_host", "this server answers to localhost only.")
        other_site = headers.get("sec-fetch-site") == "cross-site" and path.startswith("/v1/")
        if other_site or ("origin" in headers and _split(headers["origin"]).netloc != host):
            return Refused("other_site", "requests of other web sites are not answered.")
        return None

    def _token_refusal(self, headers: Headers) -> Refused | None:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            # scripts in a browser cannot set a WebSocket's headers, but its subprotocols
            words = headers.get("sec-websocket-protocol", "").replace(" ", "").split(",")
            token = next((word[7:] for word in words if word.startswith("bearer.")), "")
        if not token:
            return Refused("token_missing", "this server asks for a bearer token.")
        data = token.strip().encode("latin-1")
        # all of them are compared, so that the time says nothing
        if sum(hmac.compare_digest(data, known.encode()) for known in self._settings.tokens):
            return None
        return Refused("token_wrong", "the bearer token is wrong: ask for a valid one.")


def _split(url: str) -> SplitResult:
    """The parts of an address; none of what is no address."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
