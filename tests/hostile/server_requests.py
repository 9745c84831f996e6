"""Requests that mean harm: crafted forms, headers and options, sent through the whole application.

A file of this reader is one request as JSON: `socket` (a WebSocket's handshake instead of a POST),
`token` (the server asks for one), `query`, `headers` and `body`, each character of it one byte.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
from pathlib import Path
from typing import Any

from hostile.reader import encoded
from luvli.errors import InputError

OPTIONS = ("boxes", "min_score", "coverage", "model", "regions", "measures", "x", "boxes[]", "")
NUMBERS = ("1e-300", "2e-300", "1e300", "-1e999", "NaN", "Infinity", "1e5", "-0", "0", "9" * 400)
WORDS = (
    "true", "None", "nan", "-1", "1e400", "%00", "%ff%fe", "%F0%9F%98%80", "%zz", "luvli-68", "",
    "null", "[null]", "[[]]", '{"a":1}', "1;2", "=", "&&&", "+", "%26", "../../etc/passwd",
    "a" * 40_000, "[" * 20_000,
)  # fmt: skip
HEADERS = (
    "host", "origin", "accept", "content-type", "content-length", "authorization", "cookie",
    "sec-fetch-site", "sec-websocket-protocol", "transfer-encoding", "x-forwarded-for", "expect",
)  # fmt: skip
FORM = "multipart/form-data; boundary="
VALUES = (
    "http://[", "http://[::1", "http://]", "[::1]", "[::1]:x", "[", "]:80", ":", "::", "//",
    "http://a:b:c", "null", "chunked", "localhost:99999999", "localhost.", "LOCALHOST", "-1",
    "cross-site", "Bearer", "audio/*", "image/jpeg", "", " ", "\xe9\xff", "\x00", "Bearer ",
    "Bearer \xff\xfe", "bearer." + "x" * 9000, ",,,bearer.,", "*/*;q=nan", "text/csv, image/png",
    "," * 20_000, "9" * 500, FORM, "multipart/form-data", FORM + "b" * 5000, FORM + '"cu\\"t"',
    FORM + "\xff; charset=utf-7", FORM + "cut; charset=rot13",
)  # fmt: skip
CUT = "--cut\r\n"
DISPOSITION = "Content-Disposition: form-data; name="


def options(rng: random.Random, request: dict[str, Any]) -> None:
    """Numbers that overflow, names twice or unknown, words that are no numbers."""

    def boxes() -> str:
        corners = (",".join(rng.choices(NUMBERS, k=rng.choice((4, 4, 4, 3, 5)))) for _ in range(3))
        return f"[{','.join(f'[{c}]' for c in list(corners)[: rng.choice((1, 1, 3))])}]"

    pairs = []
    for _ in range(rng.choice((1, 2, 3, 2000))):
        value = boxes() if rng.random() < 0.5 else rng.choice((*WORDS, *NUMBERS))
        name = rng.choice(("boxes", *OPTIONS)) if rng.random() < 0.9 else rng.choice(WORDS)
        pairs.append(name[:50] + "=" + value[: rng.choice((10, 1000, 60_000))])
    request["query"] = "&".join(pairs)[:64_000]


def headers(rng: random.Random, request: dict[str, Any]) -> None:
    """Other values, or the same header twice."""
    for _ in range(rng.choice((1, 1, 2, 4, 40))):
        request["headers"].append([rng.choice(HEADERS), rng.choice(VALUES)])
    rng.shuffle(request["headers"])


def form(rng: random.Random, request: dict[str, Any]) -> None:
    """Parts without a name, of one name, without end, with heads of every kind."""
    names = ("boxes", "a", "", "x" * 3000, "\xff", '"', "\xe9", "\r\n")
    files = ("a.jpg", "", "../../x", "\x00", "f" * 9000)
    others: tuple[list[str], ...] = ([], ["Content-Type: x; charset=y"], ["X: y"] * 50, ["X"], [""])
    parts, image = [], request["body"][:100_000]  # no form of an earlier change
    count = rng.choice((1, 2, 5, 9, 17, 3000))
    for _ in range(count):
        head = f'{DISPOSITION}"{rng.choice(names)}"'
        if rng.random() < 0.5:
            head += f'; filename="{rng.choice(files)}"'
        heads = [head] * rng.choice((0, 1, 1, 1, 2)) + rng.choice(others)
        content = rng.choice((*WORDS, *NUMBERS, "\r\n--cut", "--cut--", image, "\xff"))
        content *= rng.choice((1, 1, 1, 20))
        parts.append("\r\n".join([*heads, "", content[: 9_000_000 // count]]))
    edge = rng.choice((*["\r\n--cut\r\n"] * 3, "\n--cut\n", "--cut", "\r\n--cut--"))
    body = edge.join(["", *parts]) + rng.choice(("\r\n--cut--\r\n", "", "--cut"))
    request["body"] = body[:9_000_000]
    request["headers"].append(["content-type", f"{FORM}cut"])


def bombs(rng: random.Random, request: dict[str, Any]) -> None:
    """What once kept the server busy for a minute, 9 MB of it."""
    field = f'{CUT}{DISPOSITION}"x"\r\n\r\nx\r\n'
    units = ("--cut\r\n\r\n\r\n", field, "\r\n--cut-", "[1,2,3,4],", "\r\n", CUT, "X: y\r\n")
    unit = rng.choice(units)
    names = ("boxes", 'a"; filename="a')
    begins = ("", *(f'{CUT}{DISPOSITION}"{name}"\r\n' for name in names))
    begin = rng.choice(begins) + rng.choice(("\r\n", ""))
    request["body"] = begin + unit * (9_000_000 // len(unit)) + "--cut--\r\n"
    request["headers"].append(["content-type", f"{FORM}cut"])


def crafted(rng: random.Random, data: bytes) -> bytes:
    """One to three kinds of harm in one request."""
    request = json.loads(data)
    kinds = (options, options, headers, headers, form, form)
    chosen = rng.sample(kinds, rng.choice((1, 1, 2, 3))) if rng.random() < 0.97 else [bombs]
    for change in chosen:
        change(rng, request)
    request["socket"] = rng.random() < 0.1
    request["token"] = rng.random() < 0.2
    return json.dumps(request).encode()


@functools.cache
def applications() -> tuple[asyncio.AbstractEventLoop, dict[bool, Any]]:
    """An event loop, and the server without and with a token."""
    from luvli.serving.app import create_app
    from luvli.serving.engine import Engine
    from luvli.serving.settings import Limits, ServerSettings

    tokens: dict[bool, tuple[str, ...]] = {False: (), True: ("correct-horse-battery",)}
    patient = Limits(request_seconds=3600, receive_seconds=3600)  # however busy the machine is
    engines = {
        key: Engine(ServerSettings(tokens=some, threads=1, limits=patient))
        for key, some in tokens.items()
    }
    return asyncio.new_event_loop(), {key: create_app(one) for key, one in engines.items()}


async def send(app: Any, request: dict[str, Any]) -> tuple[int, bytes]:
    """Status and body of the answer; of a WebSocket's handshake 101 or 403."""
    socket, body = request["socket"], request["body"].encode("latin-1")
    scope = {
        "type": "websocket" if socket else "http",
        "method": "POST",
        "path": "/v1/stream" if socket else "/v1/predict",
        "query_string": request["query"].encode("latin-1"),
        "headers": [(n.encode("latin-1"), v.encode("latin-1")) for n, v in request["headers"]],
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "scheme": "http",
    }
    if socket:
        frame = {"type": "websocket.receive", "bytes": body[:5000]}
        options = {"type": "websocket.receive", "text": request["query"]}
        end = {"type": "websocket.disconnect", "code": 1000}
        arriving = [{"type": "websocket.connect"}, frame, options, end]
    else:
        pieces = [body[i : i + 65536] for i in range(0, len(body), 65536)]
        arriving = [{"type": "http.request", "body": p, "more_body": True} for p in pieces]
        arriving.append({"type": "http.request", "body": b"", "more_body": False})
    messages: list[Any] = []

    async def receive() -> Any:
        if not arriving:
            await asyncio.Event().wait()
        return arriving.pop(0)

    async def keep(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, keep)
    if socket:
        return (101 if messages[0]["type"] == "websocket.accept" else 403), b""
    return messages[0]["status"], b"".join(m.get("body", b"") for m in messages[1:])


def write_request(path: Path) -> None:
    request = {"socket": False, "token": False, "query": "boxes=[[1,2,30,40]]"}
    body = encoded("JPEG").decode("latin-1")
    path.write_text(json.dumps(request | {"headers": [["host", "localhost"]], "body": body}))


def send_request(path: Path) -> None:
    """`POST /v1/predict` or the handshake of the stream."""
    request = json.loads(path.read_text())
    loop, apps = applications()
    status, body = loop.run_until_complete(send(apps[request["token"]], request))
    if status in (101, 200):
        return
    if status == 403 and not body:
        raise InputError("the handshake is refused.")
    assert 400 <= status < 500, f"status {status}"
    raise InputError(json.loads(body)["error"]["message"])
