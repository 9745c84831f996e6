"""The application and its routes."""

# no annotations as text here: FastAPI must find the names in them that a function has

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from luvli import __version__
from luvli.errors import InputError
from luvli.serving.answers import answer, answer_kind, describe_model, to_json
from luvli.serving.engine import Engine, Take
from luvli.serving.errors import Refused, refusal
from luvli.serving.guard import Guard
from luvli.serving.schema import ErrorBody, ImageBody, ModelsBody, PredictQuery
from luvli.serving.settings import PAGE, first_problem
from luvli.serving.stream import serve_stream
from luvli.serving.upload import read_body, read_upload

TEXT = {"schema": {"type": "string"}}
FILE = {"type": "string", "format": "binary"}
FORM = {
    "type": "object",
    "properties": {"image": {"type": "array", "items": FILE}, "boxes": {"type": "string"}},
}
PREDICT_BODY = {
    "required": True,
    "description": "The bytes of one image, or a form with one or several files.",
    "content": {"image/*": {"schema": FILE}, "multipart/form-data": {"schema": FORM}},
}
PREDICT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {"schema": FILE}, "text/csv": TEXT}},
    "4XX": {"model": ErrorBody, "description": "A request that cannot be answered as it is."},
    503: {"model": ErrorBody, "description": "The server is busy; see Retry-After."},
}
router = APIRouter()


def engine_of(connection: HTTPConnection) -> Engine:
    """The engine of the application that a request came to."""
    engine: Engine = connection.app.state.engine
    return engine


Served = Annotated[Engine, Depends(engine_of)]


async def memory_of(engine: Served) -> AsyncIterator[Take]:
    """What a request holds in memory, until its answer has been sent."""
    with engine.memory.share() as take:
        yield take


@router.post(
    "/v1/predict",
    summary="Find the faces of an image, or of several",
    response_model=ImageBody | list[ImageBody | ErrorBody],
    response_description="The faces; for several images a list of such objects, in order.",
    responses=PREDICT_RESPONSES,
    openapi_extra={"requestBody": PREDICT_BODY},
)
async def post_predict(
    request: Request,
    query: Annotated[PredictQuery, Query()],
    engine: Served,
    take: Annotated[Take, Depends(memory_of)],
) -> Response:
    limits = engine.settings.limits
    kind = answer_kind(request.headers.get("accept", "*/*"))
    engine.model(query.model)  # refuses an unknown one before the body is read
    body = await read_body(request, take, limits)
    try:
        with engine.places.share() as take_place:
            take_place(1)
            async with asyncio.timeout(limits.request_seconds):
                upload = await engine.in_thread(read_upload, request.headers, body, limits)
                content = await answer(engine, upload, query, kind)
    except TimeoutError:
        words = f"the answer took longer than {limits.request_seconds:g} seconds: try again."
        raise Refused("busy", words) from None
    take(len(content))
    return Response(content, media_type=kind)


@router.get("/v1/models", response_model=ModelsBody, summary="The models and the limits")
async def models(engine: Served) -> Response:
    described = [describe_model(model.predictor) for model in engine.models.values()]
    limits = engine.settings.limits.model_dump()
    body = {"models": described, "limits": limits, "version": __version__}
    return Response(to_json(body), media_type="application/json")


@router.websocket("/v1/stream")
async def open_stream(websocket: WebSocket, engine: Served) -> None:
    await serve_stream(websocket, engine)


@router.get("/healthz", summary="Whether the process is alive", response_class=PlainTextResponse)
async def health() -> str:
    return "ok\n"


@router.get("/readyz", summary="Whether it takes requests", response_class=PlainTextResponse)
async def readiness() -> str:
    return "ready\n"  # the first request is answered when the models are loaded


@router.get("/metrics", summary="Counters for Prometheus", response_class=PlainTextResponse)
async def metrics(engine: Served) -> Response:
    return Response(engine.metrics.text(), media_type="text/plain; version=0.0.4")


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(PAGE / "index.html")


@router.get("/docs", include_in_schema=False)
async def docs() -> FileResponse:
    return FileResponse(PAGE / "docs.html")


async def answer_error(_: Request, error: Exception) -> Response:
    """The answer to what went wrong with a request."""
    if isinstance(error, HTTPException):
        code = "not_allowed" if error.status_code == 405 else "not_found"
        error = Refused(code, f"{error.detail}.")
    elif isinstance(error, RequestValidationError):
        error = Refused("unusable", first_problem(error.errors(), PredictQuery))
    assert isinstance(error, InputError)
    return refusal(error).response()


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
        exception_handlers=dict.fromkeys(
            (InputError, RequestValidationError, HTTPException), answer_error
        ),
    )
    app.state.engine = engine
    app.add_middleware(Guard, settings=engine.settings, metrics=engine.metrics)
    app.include_router(router)
    app.mount("/page", StaticFiles(directory=PAGE))
    return app
