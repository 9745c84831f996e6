"""The application: its paths. `create_app` makes it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from luvli import __version__
from luvli.serving.describe import describe_model, page_folder, to_json
from luvli.serving.engine import Engine
from luvli.serving.errors import Refused
from luvli.serving.guard import Guard
from luvli.serving.memory import keep_small
from luvli.serving.predict import Predict
from luvli.serving.schema import PREDICT_REQUEST, PREDICT_RESPONSES, ModelsBody
from luvli.serving.stream import serve_stream


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

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        code = "not_allowed" if error.status_code == 405 else "not_found"
        words = Refused(error.status_code, code, f"{error.detail}.")
        return JSONResponse(words.body(), error.status_code, error.headers)

    predict = Predict(engine)
    app.add_api_route(
        "/v1/predict",
        predict.respond,
        methods=["POST"],
        summary="Find the faces of an image, or of several",
        openapi_extra=PREDICT_REQUEST,
        responses=PREDICT_RESPONSES,
        response_class=Response,
    )

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

    @app.head("/healthz", include_in_schema=False)  # what some load balancers ask with
    @app.get("/healthz", summary="Whether the process lives")
    async def health() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.head("/readyz", include_in_schema=False)
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

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(page_folder() / "index.html", headers=cached)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(page_folder() / "docs.html", headers=cached)

    app.mount("/page", _PageFiles(directory=page_folder()))
    return Guard(app, settings, engine.metrics, {"/v1/predict": predict})


class _PageFiles(StaticFiles):
    def file_response(self, *arguments: Any, **named: Any) -> Response:
        response = super().file_response(*arguments, **named)
        response.headers["Cache-Control"] = "no-cache"
        return response
