"""The application and its routes."""

# no annotations as text here: FastAPI must find the names in them that a function has

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from luvli import __version__
from luvli.errors import InputError
from luvli.serving.answers import answer, answer_kind, describe_model, to_json
from luvli.serving.engine import Engine
from luvli.serving.errors import Refused, busy, refusal, unusable
from luvli.serving.guard import Guard
from luvli.serving.schema import ErrorBody, ImageBody, ModelsBody, PredictQuery, first_problem
from luvli.serving.settings import PAGE
from luvli.serving.stream import serve_stream
from luvli.serving.upload import Admission, Hold, read_body, read_upload

_FILE = {"type": "string", "format": "binary"}
_FORM = {
    "type": "object",
    "properties": {"image": {"type": "array", "items": _FILE}, "boxes": {"type": "string"}},
}
PREDICT_BODY = {
    "required": True,
    "description": "The bytes of one image, or a form with one or several files.",
    "content": {"image/*": {"schema": _FILE}, "multipart/form-data": {"schema": _FORM}},
}
PREDICT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {"schema": _FILE}, "text/csv": {"schema": {"type": "string"}}}},
    "4XX": {"model": ErrorBody, "description": "A request that cannot be answered as it is."},
    503: {"model": ErrorBody, "description": "The server is busy; see Retry-After."},
}
READY_RESPONSES: dict[int | str, dict[str, Any]] = {
    503: {"description": "Not ready.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


def create_app(engine: Engine) -> FastAPI:
    """The server for one process, for uvicorn or any other ASGI server."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await engine.in_thread(engine.warm_up)
        yield
        engine.close()

    app = FastAPI(
        title="LUVLi",
        version=__version__,
        description="Face landmarks with their uncertainty and visibility.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Guard, settings=engine.settings, metrics=engine.metrics)
    _add_api(app, engine)
    _add_page(app)

    async def refuse(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            code = "not_allowed" if error.status_code == 405 else "not_found"
            error = Refused(error.status_code, code, f"{error.detail}.")
        elif isinstance(error, RequestValidationError):
            error = unusable(first_problem(error.errors(), PredictQuery))
        assert isinstance(error, InputError)
        return refusal(error).response()

    for kind in (InputError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, refuse)
    return app


def _add_api(app: FastAPI, engine: Engine) -> None:
    limits = engine.settings.limits
    admission = Admission(limits, engine.metrics)

    @app.post(
        "/v1/predict",
        summary="Find the faces of an image, or of several",
        response_model=ImageBody | list[ImageBody | ErrorBody],
        response_description="The faces; for several images a list of such objects, in order.",
        responses=PREDICT_RESPONSES,
        openapi_extra={"requestBody": PREDICT_BODY},
    )
    async def predict(
        request: Request,
        query: Annotated[PredictQuery, Query()],
        hold: Annotated[Hold, Depends(admission.memory)],
    ) -> Response:
        kind = answer_kind(request.headers.get("accept", "*/*"))
        engine.model(query.model)  # refuses an unknown one before the body is read
        body = await read_body(request, hold, limits)
        try:
            with admission.place():
                async with asyncio.timeout(limits.request_seconds):
                    upload = await engine.in_thread(read_upload, request.headers, body, limits)
                    content = await answer(engine, upload, query, kind)
        except TimeoutError:
            seconds = f"{limits.request_seconds:g} seconds"
            raise busy(f"the answer took longer than {seconds}: try again.") from None
        hold(len(content))
        return Response(content, media_type=kind)

    @app.get("/v1/models", response_model=ModelsBody, summary="The models and the limits")
    async def models() -> Response:
        described = [describe_model(model.predictor) for model in engine.models.values()]
        body = {"models": described, "limits": limits.model_dump(), "version": __version__}
        return Response(to_json(body), media_type="application/json")

    @app.websocket("/v1/stream")
    async def stream(websocket: WebSocket) -> None:
        await serve_stream(websocket, engine)

    text: dict[str, Any] = {"response_class": PlainTextResponse}

    @app.head("/healthz", include_in_schema=False)  # what some load balancers ask with
    @app.get("/healthz", summary="Whether the process is alive", **text)
    async def health() -> str:
        return "ok\n"

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", summary="Whether it takes requests", responses=READY_RESPONSES, **text)
    async def readiness() -> Response:
        status, words = (200, "ready\n") if engine.ready else (503, "not ready\n")
        return PlainTextResponse(words, status)

    @app.get("/metrics", summary="Counters for Prometheus", **text)
    async def metrics() -> Response:
        return Response(engine.metrics.text(), media_type="text/plain; version=0.0.4")


def _add_page(app: FastAPI) -> None:
    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(PAGE / "docs.html")

    app.mount("/page", StaticFiles(directory=PAGE))
