"""The real server process: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import luvli
from luvli.data.formats.csv import read_csv
from luvli.faces import FaceLandmarks
from luvli.serving import AsyncClient, Client, ServerError
from luvli.serving.guard import HEADERS
from luvli.serving.schema import ImageBody, ModelsBody, PredictQuery

from .conftest import EXAMPLES, Server
from .test_upload import FORM, form, png_claiming


@pytest.mark.parametrize("upside_down", [False, True])
def test_an_answer_is_what_the_library_says(
    server: Server, image: bytes, upside_down: bool
) -> None:
    if upside_down:
        stream = io.BytesIO()
        Image.open(io.BytesIO(image)).rotate(180).save(stream, "PNG")
        image = stream.getvalue()
    status, headers, body = server.ask("POST", "/v1/predict", image)
    assert status == 200 and headers["Content-Type"] == "application/json"
    answer = json.loads(body)
    expected = luvli.load("luvli-68").predict(image)
    assert [FaceLandmarks.from_dict(face) for face in answer["faces"]] == list(expected)
    assert len(expected) == 1
    assert (answer["width"], answer["height"], answer["model"]) == (640, 640, "luvli-68")
    assert answer["version"] == luvli.__version__
    assert answer["timings"]["total"] > 0


def test_several_pictures_give_a_list_in_order(server: Server, image: bytes) -> None:
    turned = (EXAMPLES / "turned.jpg").read_bytes()
    with Client(server.url) as client:
        both = client.predict_many([image, turned])
        assert both[1].faces == client.predict(turned).faces
        assert both[0].faces == client.predict(EXAMPLES / "front.jpg").faces
        answers = client.predict_many([image, b"no image", turned], errors="return")
        with pytest.raises(ServerError, match="image 2 is not an image"):
            client.predict_many([image, b"no image"])
    assert [type(answer).__name__ for answer in answers] == [
        "Prediction",
        "ServerError",
        "Prediction",
    ]
    assert answers[1].code == "not_an_image" and answers[2].faces == both[1].faces


def test_arrays_and_pil_images_give_the_same_numbers(server: Server, image: bytes) -> None:
    whole = Image.open(io.BytesIO(image))

    async def ask() -> list[Any]:
        async with AsyncClient(server.url) as client:
            names = [model["name"] for model in await client.models()]
            one = await client.predict(np.asarray(whole))
            return [one, await client.predict(whole, model=names[0])]

    expected = luvli.load("luvli-68").predict(np.asarray(whole))
    assert [list(answer.faces) for answer in asyncio.run(ask())] == [list(expected)] * 2


def test_given_boxes_are_used_in_their_order(server: Server, image: bytes) -> None:
    boxes = [[200.0, 150.0, 480.0, 500.0], [150.0, 140.0, 490.0, 520.0]]
    expected = luvli.load("luvli-68").predict(image, boxes=boxes)
    with Client(server.url) as client:
        assert list(client.predict(image, boxes=boxes).faces) == list(expected)
        assert len(client.predict(image, boxes=[]).faces) == 0
        many = client.predict_many([image, image], boxes=[boxes, []])
        assert [len(each.faces) for each in many] == [2, 0]
    body = form(("image", "a.jpg", image), ("boxes", None, json.dumps(boxes).encode()))
    _, _, answer = server.ask("POST", "/v1/predict", body, {"Content-Type": FORM})
    assert len(json.loads(answer)["faces"]) == 2


def test_a_drawing_and_a_table_can_be_asked_for(
    server: Server, image: bytes, tmp_path: Any
) -> None:
    path = "/v1/predict?coverage=0.9"
    drawing = Image.open(io.BytesIO(server.ask("POST", path, image, {"Accept": "image/png"})[2]))
    assert drawing.format == "PNG" and drawing.size == (640, 640)
    assert drawing.convert("RGB").tobytes() != Image.open(io.BytesIO(image)).tobytes()
    table = server.ask("POST", "/v1/predict", image, {"Accept": "text/csv"})[2]
    (tmp_path / "faces.csv").write_bytes(table)
    face = Client(server.url).predict(image).faces[0]
    record = read_csv(tmp_path / "faces.csv")[0]
    assert (record.points == face.points).all()


def test_health_metrics_and_openapi(server: Server, image: bytes) -> None:
    assert server.ask("GET", "/healthz")[2] == b"ok\n"
    for path in ("/healthz", "/readyz", "/"):  # load balancers ask so
        status, headers, body = server.ask("HEAD", path)
        assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 0
    before = metrics(server)
    server.ask("POST", "/v1/predict", image)
    server.ask("POST", "/v1/predict", b"no image")
    after = metrics(server)
    assert after["luvli_faces_total"] == before["luvli_faces_total"] + 1
    ok, bad = (f'luvli_requests_total{{path="/v1/predict",status="{s}"}}' for s in (200, 415))
    assert after[ok] == before.get(ok, 0) + 1 and after[bad] == before.get(bad, 0) + 1
    assert after["luvli_requests_in_flight"] == 0 == after["luvli_buffered_bytes"]
    assert after['luvli_batch_faces_bucket{le="+Inf"}'] == after["luvli_batch_faces_count"]


def test_the_api_describes_options_fields_and_content_types(server: Server) -> None:
    api = json.loads(server.ask("GET", "/openapi.json")[2])
    paths, schemas = api["paths"], api["components"]["schemas"]
    assert set(paths) == {"/v1/predict", "/v1/models", "/healthz", "/readyz", "/metrics"}
    answers = {path: next(iter(about.values()))["responses"] for path, about in paths.items()}
    for path in ("/healthz", "/readyz", "/metrics"):
        assert {kind for one in answers[path].values() for kind in one["content"]} == {"text/plain"}
    kinds = {"application/json", "image/png", "text/csv"}
    assert set(answers["/v1/predict"]["200"]["content"]) == kinds
    options = paths["/v1/predict"]["post"]["parameters"]
    assert {option["name"] for option in options} == set(PredictQuery.model_fields)
    assert all(option["description"] for option in options)
    ours = {name: body for name, body in schemas.items() if "Validation" not in name}
    assert {"FaceBody", "ImageBody", "ErrorBody", "ModelBody", "Limits"} <= set(ours)
    for name, body in ours.items():
        for field, about in body["properties"].items():
            assert about.get("description"), f"{name}.{field}"


@pytest.mark.parametrize("options", ["", "?regions=true&measures=true"])
def test_answers_have_the_fields_that_are_described_and_no_others(
    server: Server, image: bytes, options: str
) -> None:
    for path, model, body in (
        (f"/v1/predict{options}", ImageBody, image),
        ("/v1/models", ModelsBody, None),
    ):
        method = "POST" if body else "GET"
        answer = json.loads(server.ask(method, path, body)[2])
        again = model.model_validate(answer, strict=True).model_dump(exclude_unset=True)
        assert again == answer
    assert len(answer["models"][0]["names"]) == 68 == len(answer["models"][0]["schematic"])


def test_measures_are_those_of_the_library(server: Server, image: bytes) -> None:
    expected = luvli.load("luvli-68").predict(image)[0].measures
    with Client(server.url) as client:
        one = client.predict(image, measures=True)
        assert client.predict(image).measures is None
        units = client.models()[0]["measures"]
        (frame,) = client.stream([image], measures=True, smooth=False)
        assert len(client.predict(image, boxes=[], measures=True).faces) == 0
    assert one.measures is not None and frame.measures is not None
    assert dict(one.measures[0]).keys() == expected.keys() == units.keys()
    for name, measure in expected.items():
        sent = one.measures[0][name]
        assert [sent.value, sent.std, sent.visible] == pytest.approx(
            [measure.value, measure.std, measure.visible], rel=1e-6
        )
        assert units[name] == measure.unit


def metrics(server: Server) -> dict[str, float]:
    lines = server.ask("GET", "/metrics")[2].decode().splitlines()
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    }


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/v1/predict", b"not an image", {}, 415),
        ("/v1/predict", b"", {}, 422),
        ("/v1/predict", png_claiming(60_000, 60_000), {}, 413),
        ("/v1/predict", png_claiming(100, 100)[:60], {}, 422),
        ("/v1/predict?min_score=2", b"x", {}, 422),
        ("/v1/predict?model=../../etc/passwd", png_claiming(100, 100), {}, 404),
        ("/v1/predict?boxes=[[0,0,1]]", png_claiming(100, 100), {}, 422),
        ("/v1/predict?boxes=[[9,9,1,1]]", png_claiming(100, 100), {}, 422),
        ("/v1/predict?boxes=" + "[" * 3000, png_claiming(100, 100), {}, 422),
        ("/v1/predict?boxes=[[1e-300,0,2e-300,1e-300]]", png_claiming(100, 100), {}, 422),
        ("/v1/predict?bxes=[]", b"x", {}, 422),
        ("/v1/predict", b"x", {"Accept": "audio/ogg"}, 406),
        ("/v1/nothing", b"x", {}, 404),
        ("/v1/predict", None, {}, 405),
        ("/v1/predict?regions=maybe", b"x", {}, 422),
        ("/page/../app.py", None, {}, 404),
        ("/page/%2e%2e/app.py", None, {}, 404),
    ],
)
def test_what_cannot_be_answered_gets_one_sentence(
    server: Server, path: str, body: bytes | None, headers: dict[str, str], status: int
) -> None:
    got, _, answer = server.ask("GET" if body is None else "POST", path, body, headers)
    words = json.loads(answer)["error"]
    assert got == status, words
    assert set(words) == {"code", "message"} and words["message"].endswith(".")
    assert not any(word in words["message"] for word in ("Traceback", ".py", "passwd"))


def test_every_answer_carries_the_security_headers(server: Server) -> None:
    for path in ("/", "/page/main.js", "/v1/models", "/nothing", "/docs", "/metrics"):
        _, headers, _ = server.ask("GET", path)
        for name, value in HEADERS.items():
            assert headers.get_all(name) == [value], path
        assert headers["Server"] is None and headers["Access-Control-Allow-Origin"] is None


def test_other_web_sites_are_not_answered(server: Server, image: bytes) -> None:
    for headers, status in (
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost.evil.example:80"}, 421),
        ({"Host": "localhost"}, 200),
        ({"Origin": server.url}, 200),
    ):
        assert server.ask("POST", "/v1/predict", image, headers)[0] == status, headers
    for origin in ("https://evil.example", "http://["):
        address = server.url.replace("http", "ws") + "/v1/stream"
        with pytest.raises(InvalidStatus, match="403"), connect(address, origin=origin):
            pass


def test_a_token_is_needed_where_one_is_set(
    start: Callable[..., Server], tmp_path: Any, image: bytes
) -> None:
    (tmp_path / "tokens").write_text("correct-horse-battery\n")
    server = start("--token-file", str(tmp_path / "tokens"))
    assert server.ask("GET", "/")[0] == 200 and server.ask("GET", "/healthz")[0] == 200
    for path in ("/v1/models", "/metrics", "/v1/nothing"):
        status, headers, _ = server.ask("GET", path)
        assert status == 401 and headers["WWW-Authenticate"] == "Bearer"
    for token, code in ((None, "token_missing"), ("wrong-horse-battery", "token_wrong")):
        with pytest.raises(ServerError, match="token") as caught:
            Client(server.url, token=token).predict(image)
        assert (caught.value.status, caught.value.code) == (401, code)
    assert len(Client(server.url, token="correct-horse-battery").predict(image).faces) == 1


def test_the_command_refuses_what_it_cannot_do(luvli: Any, tmp_path: Any) -> None:
    for options, hint in (
        (["--host", "0.0.0.0"], "--token-file"),
        (["--limit", "max_fases=3"], "max_faces"),
        (["--token-file", tmp_path / "none"], "none"),
    ):
        result = luvli("serve", *options)
        assert result.exit_code == 2 and hint in result.output


def test_a_stream_follows_and_smooths_and_the_newest_frame_wins(
    server: Server, image: bytes
) -> None:
    with connect(server.url.replace("http", "ws") + "/v1/stream", max_size=None) as socket:

        def answer(message: bytes | str) -> Any:
            socket.send(message)
            return json.loads(socket.recv())

        first = answer(image)
        assert first["frame"] == 0 and first["tracks"] == [1]
        assert FaceLandmarks.from_dict(first["faces"][0]).points.shape == (68, 2)
        for _ in range(12):
            socket.send(image)
        answers = [json.loads(socket.recv())]
        while answers[-1]["frame"] != 12:
            answers.append(json.loads(socket.recv()))
        numbers = [one["frame"] for one in answers]
        assert numbers == sorted(numbers)  # how many depends on the speed of the machine
        assert answers[-1]["dropped"] == 12 - len(numbers) and answers[-1]["tracks"] == [1]
        assert answer(b"no image")["error"]["code"] == "not_an_image"
        assert "smooth" in answer('{"smoth": true}')["error"]["message"]
        socket.send('{"smooth": false}')
        assert len(answer(image)["faces"]) == 1


def test_the_client_streams(server: Server, image: bytes) -> None:
    async def ask() -> list[Any]:
        async with AsyncClient(server.url) as client:
            return [answer async for answer in client.stream([image] * 3, smooth=False)]

    expected = luvli.load("luvli-68").predict(image)[0].points
    for answers in (list(Client(server.url).stream([image] * 3, smooth=False)), asyncio.run(ask())):
        assert [(one.frame, one.tracks, one.dropped) for one in answers] == [
            (number, [1], 0) for number in range(3)
        ]
        assert np.abs(answers[0].faces[0].points - expected).max() < 1  # tracks are cropped anew
    with pytest.raises(ServerError, match="smoth"):
        list(Client(server.url).stream([image], smoth=True))
