"""`POST /v1/predict`: from the request's bytes to the bytes of the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import Response
from pydantic import ValidationError

from luvli.serving.describe import answer_fields, to_csv, to_json, to_png
from luvli.serving.engine import Answer, Engine, Options
from luvli.serving.errors import Refused, busy, unusable
from luvli.serving.schema import PredictQuery
from luvli.serving.upload import Receive, Upload, body_too_large, decode, parse_upload, read_body

KINDS = {"application/json": "json", "image/png": "png", "text/csv": "csv"}
WATCH_AFTER = 0.05
"""seconds of a request after which it is seen to that its client is still there"""
DEFAULTS = PredictQuery()


class Predict:
    """The path as an ASGI application of its own.

    The guard calls it directly: FastAPI's way to it, through middleware, routes and dependencies,
    took a third of what a request takes beside the library's work. FastAPI describes it.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def __call__(self, scope: Any, receive: Receive, send: Any) -> None:
        response = await self._respond(scope, receive)
        await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        """The answer, for FastAPI."""
        return await self._respond(request.scope, request.receive)

    async def _respond(self, scope: Any, receive: Receive) -> Response:
        headers = dict(scope["headers"])
        kind = wanted_kind(headers.get(b"accept", b"*/*").decode("latin-1"))
        query = read_query(scope["query_string"])
        limits = self.engine.settings.limits
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > limits.max_bytes:
            raise body_too_large(limits)
        expected = int(length) if length.isdigit() else limits.max_bytes
        client = scope["client"][0] if scope.get("client") else ""
        admission = self.engine.admission
        with admission.place(client), admission.buffer(expected):
            body = await read_body(receive, limits)
            content_type = headers.get(b"content-type", b"").decode("latin-1")
            upload = parse_upload(body, content_type, limits)
            del body
            options = read_options(upload, query)
            wanted = _Wanted(kind, query.coverage, query.regions)
            work = _answer(self.engine, upload, options, wanted)
            return await _unless_gone(receive, work, limits.request_seconds)


class _Wanted(NamedTuple):
    """What the answer should be."""

    kind: str
    coverage: float | None
    regions: bool


def wanted_kind(accept: str) -> str:
    """The kind of answer: the first one of ours in the Accept header.

    >>> wanted_kind("text/html, text/csv;q=0.9")
    'csv'
    """
    for word in accept.split(","):
        media = word.partition(";")[0].strip().lower()
        if media in KINDS:
            return KINDS[media]
        if media in ("*/*", "application/*", ""):
            return "json"
    raise Refused(406, "not_acceptable", f"the answer can be one of {', '.join(KINDS)}.")


def read_query(text: bytes) -> PredictQuery:
    """The options; of one that is given twice the last, and unknown ones are left alone.

    >>> read_query(b"min_score=0.8&x=1").min_score
    0.8
    """
    if not text:
        return DEFAULTS
    given: Mapping[str, str] = dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True))
    try:
        return PredictQuery.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise unusable(f"{first['loc'][-1]} cannot be used: {first['msg']}.") from None


def read_options(upload: Upload, query: PredictQuery) -> list[Options]:
    """One for each image."""
    count = len(upload.files)
    given: Sequence[Any] = [None] * count
    boxes = query.boxes or upload.fields.get("boxes")
    if boxes is not None:
        try:
            rows = json.loads(boxes)
        except (ValueError, RecursionError):
            raise unusable("the boxes are not JSON: write [[x0, y0, x1, y1], ...].") from None
        given = [rows] if count == 1 and not _is_nested(rows) else rows
        if not isinstance(given, list) or len(given) != count or not all(map(_is_boxes, given)):
            raise unusable(
                "the boxes must be [[x0, y0, x1, y1], ...], or one such list for each image."
            )
    return [Options(query.model, rows, query.min_score) for rows in given]


def _is_boxes(rows: Any) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, list)
        and len(row) == 4
        and all(isinstance(edge, int | float) and abs(edge) < 1e6 for edge in row)
        for row in rows
    )


def _is_nested(rows: Any) -> bool:
    return isinstance(rows, list) and len(rows) == 1 and _is_boxes(rows[0]) and rows[0] != []


async def _answer(
    engine: Engine, upload: Upload, options: list[Options], wanted: _Wanted
) -> Response:
    predictor = engine.model(options[0].model).predictor
    several = len(upload.files) > 1
    if wanted.kind == "png" and several:
        raise unusable("a drawing is made of one image: send one, or ask for JSON.")
    asked = [
        engine.predict(name, data, option)
        for (name, data), option in zip(upload.files, options, strict=True)
    ]
    answers: list[Answer] = await asyncio.gather(*asked) if several else [await asked[0]]
    if wanted.kind == "png":
        drawing = await engine.in_thread(
            _draw, engine, upload.files[0], answers[0], predictor, wanted.coverage
        )
        return Response(drawing, media_type="image/png")
    if wanted.kind == "csv":
        table = to_csv([(f"image-{n}", answer.faces) for n, answer in enumerate(answers, 1)])
        return Response(table, media_type="text/csv")
    fields = [answer_fields(answer, predictor, wanted.regions) for answer in answers]
    return Response(to_json(fields if several else fields[0]), media_type="application/json")


def _draw(
    engine: Engine, file: tuple[str, bytes], answer: Answer, predictor: Any, coverage: float | None
) -> bytes:
    # decoded a second time, so that no decoded image waits in memory for the network
    image = decode(file[1], engine.settings.limits, file[0])
    return to_png(image, answer.faces, predictor, coverage)


async def _unless_gone(
    receive: Receive, work: Coroutine[Any, Any, Response], seconds: float
) -> Response:
    """The answer, unless it takes too long or the client goes away, which ends the work.

    Most answers are ready before anyone looks whether the client is still there: no further task
    is made for them, because each costs a lone client a turn of the event loop.
    """
    mine = asyncio.current_task()
    assert mine is not None
    gone = False
    watching: asyncio.Task[None] | None = None

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        mine.cancel()

    def begin() -> None:
        nonlocal watching
        watching = asyncio.ensure_future(watch())

    timer = asyncio.get_running_loop().call_later(WATCH_AFTER, begin)
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise busy(f"the answer took longer than {seconds:g} seconds: try again later.") from None
    except asyncio.CancelledError:
        if not gone:
            raise
        mine.uncancel()
        return Response(status_code=499)  # nobody reads it
    finally:
        timer.cancel()
        if watching is not None:
            watching.cancel()
