"""The application: paths, what they take, what they give. `create_app` makes it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import FastAPI, Query, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from luvli import __version__
from luvli.image.detect import MIN_SCORE
from luvli.serving.describe import (
    answer_fields,
    describe_model,
    page_folder,
    to_csv,
    to_json,
    to_png,
)
from luvli.serving.engine import Answer, Engine, Options
from luvli.serving.errors import Refused, busy, unusable
from luvli.serving.guard import Guard
from luvli.serving.memory import keep_small
from luvli.serving.schema import ErrorBody, ImageBody, ModelsBody
from luvli.serving.stream import serve_stream
from luvli.serving.upload import Upload, body_too_large, decode, parse_upload, read_body

KINDS = {"application/json": "json", "image/png": "png", "text/csv": "csv"}
WATCH_AFTER = 0.05
"""seconds of a request after which it is seen to that its client is still there"""

_IMAGE = {"schema": {"type": "string", "format": "binary"}}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "image/*": _IMAGE,
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "image": {"type": "array", "items": _IMAGE["schema"]},
                        "boxes": {"type": "string"},
                    },
                }
            },
        },
    }
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ImageBody | list[ImageBody],
        "content": {"image/png": {}, "text/csv": {}},
        "description": "The faces; a list of such objects for several images.",
    },
    **{
        status: {"model": ErrorBody, "description": words}
        for status, words in (
            (401, "A bearer token is needed."),
            (413, "Too many bytes, pixels, images or boxes."),
            (415, "Not an image."),
            (422, "An image or an option that cannot be used."),
            (429, "Too many requests of one client; see Retry-After."),
            (503, "Busy; see Retry-After."),
        )
    },
}


def create_app(engine: Engine) -> Guard:
    """The whole server for one process, ready for uvicorn or any other ASGI server."""
    settings = engine.settings

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.get_running_loop().run_in_executor(None, engine.warm_up)
        tidying = asyncio.ensure_future(keep_small(engine.metrics.work_done))
        yield
        tidying.cancel()
        engine.close()

    app = FastAPI(
        title="LUVLi",
        version=__version__,
        description="Face landmarks with their uncertainty and visibility.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return JSONResponse(error.body(), error.status, error.headers())

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        words = unusable(f"{first['loc'][-1]} cannot be used: {first['msg']}.")
        return JSONResponse(words.body(), words.status)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        words = Refused(error.status_code, "not_found", f"{error.detail}.")
        return JSONResponse(words.body(), error.status_code, error.headers)

    @app.post(
        "/v1/predict",
        summary="Find the faces of an image, or of several",
        openapi_extra=_BODY,
        responses=_RESPONSES,
        response_class=Response,
    )
    async def predict(
        request: Request,
        model: Annotated[str | None, Query(description="Name of a served model.")] = None,
        boxes: Annotated[
            str | None,
            Query(
                description="JSON: [[x0, y0, x1, y1], ...] tight landmark boxes in pixels; for "
                "several images a list of such lists. Then nothing is looked for."
            ),
        ] = None,
        min_score: Annotated[
            float, Query(ge=0, le=1, description="Leave out faces below this score.")
        ] = MIN_SCORE,
        coverage: Annotated[
            float | None,
            Query(gt=0, lt=1, description="Share that the ellipses of the drawing hold."),
        ] = None,
        regions: Annotated[
            bool,
            Query(description="Also give the radii of ellipses that hold a guarantee."),
        ] = False,
    ) -> Response:
        kind = _wanted(request.headers.get("accept", "*/*"))
        limits = settings.limits
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limits.max_bytes:
            raise body_too_large(limits)
        expected = int(length) if length.isdecimal() else limits.max_bytes
        client = request.client.host if request.client else ""
        with engine.place(client), engine.buffer(expected):
            body = await read_body(request.stream(), limits)
            upload = parse_upload(body, request.headers.get("content-type", ""), limits)
            del body
            options = _options(upload, model, boxes or upload.fields.get("boxes"), min_score)
            work = _answer(engine, upload, options, _Wanted(kind, coverage, regions))
            return await _unless_gone(request, work, limits.request_seconds)

    @app.get("/v1/models", response_model=ModelsBody, summary="The models and the limits")
    async def models() -> Response:
        described = [describe_model(served.predictor) for served in engine.models.values()]
        limits = settings.limits.model_dump()
        return Response(
            to_json({"models": described, "limits": limits, "version": __version__}),
            media_type="application/json",
        )

    @app.websocket("/v1/stream")
    async def stream(websocket: WebSocket) -> None:
        await serve_stream(websocket, engine)

    @app.get("/healthz", summary="Whether the process lives")
    async def health() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.get("/readyz", summary="Whether it takes requests")
    async def readiness() -> PlainTextResponse:
        if not engine.ready:
            return PlainTextResponse("not ready\n", 503)
        return PlainTextResponse("ready\n")

    @app.get("/metrics", summary="Counters for Prometheus")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(
            engine.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    cached = {"Cache-Control": "no-cache"}  # asked for again, answered with 304

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(page_folder() / "index.html", headers=cached)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(page_folder() / "docs.html", headers=cached)

    app.mount("/page", _PageFiles(directory=page_folder()))
    return Guard(app, settings, engine.metrics)


class _PageFiles(StaticFiles):
    def file_response(self, *arguments: Any, **named: Any) -> Response:
        response = super().file_response(*arguments, **named)
        response.headers["Cache-Control"] = "no-cache"
        return response


class _Wanted(NamedTuple):
    """What the answer should be."""

    kind: str
    coverage: float | None
    regions: bool


def _wanted(accept: str) -> str:
    """The kind of answer: the first one of ours in the Accept header."""
    for word in accept.split(","):
        media = word.partition(";")[0].strip().lower()
        if media in KINDS:
            return KINDS[media]
        if media in ("*/*", "application/*", ""):
            return "json"
    raise Refused(406, "not_acceptable", f"the answer can be one of {', '.join(KINDS)}.")


def _options(
    upload: Upload, model: str | None, boxes: str | None, min_score: float
) -> list[Options]:
    """One for each image."""
    count = len(upload.files)
    given: Sequence[Any] = [None] * count
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
    return [Options(model, rows, min_score) for rows in given]


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
    request: Request, work: Coroutine[Any, Any, Response], seconds: float
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
        while (await request.receive())["type"] != "http.disconnect":
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
