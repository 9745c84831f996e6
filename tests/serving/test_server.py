"""The real server process: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

import luvli
from luvli.data.formats.csv import read_csv
from luvli.faces import FaceLandmarks
from luvli.serving import Client, ServerError
from luvli.serving.guard import HEADERS

from .conftest import EXAMPLES, Server
from .test_upload import form, png_claiming


def test_an_answer_is_what_the_library_says(server: Server, image: bytes) -> None:
    status, headers, body = server.ask("POST", "/v1/predict", image)
    assert status == 200 and headers["Content-Type"] == "application/json"
    answer = json.loads(body)
    expected = luvli.load("luvli-68").predict(image)
    assert [FaceLandmarks.from_dict(face) for face in answer["faces"]] == list(expected)
    assert len(expected) == 1
    assert (answer["width"], answer["height"], answer["model"]) == (640, 640, "luvli-68")
    assert answer["version"] == luvli.__version__
    assert 0 < answer["timings"]["network"] < answer["timings"]["total"]


def test_several_pictures_give_a_list_in_order(server: Server, image: bytes) -> None:
    turned = (EXAMPLES / "turned.jpg").read_bytes()
    with Client(server.url) as client:
        both = client.predict_many([image, turned])
        assert both[1].faces == client.predict(turned).faces
        assert both[0].faces == client.predict(EXAMPLES / "front.jpg").faces
    assert both[0].faces != both[1].faces


def test_given_boxes_are_used_in_their_order(server: Server, image: bytes) -> None:
    boxes = [[200.0, 150.0, 480.0, 500.0], [150.0, 140.0, 490.0, 520.0]]
    expected = luvli.load("luvli-68").predict(image, boxes=boxes)
    with Client(server.url) as client:
        assert client.predict(image, boxes=boxes).faces == list(expected)
        assert client.predict(image, boxes=[]).faces == []
        many = client.predict_many([image, image], boxes=[boxes, []])
        assert [len(each.faces) for each in many] == [2, 0]
    body, kind = form(("image", "a.jpg", image), ("boxes", None, json.dumps(boxes).encode()))
    _, _, answer = server.ask("POST", "/v1/predict", body, {"Content-Type": kind})
    assert len(json.loads(answer)["faces"]) == 2


def test_a_drawing_and_a_table_can_be_asked_for(
    server: Server, image: bytes, tmp_path: Any
) -> None:
    with Client(server.url) as client:
        drawing = Image.open(io.BytesIO(client.draw(image, coverage=0.9)))
        assert drawing.format == "PNG" and drawing.size == (640, 640)
        assert drawing.convert("RGB").tobytes() != Image.open(io.BytesIO(image)).tobytes()
        (tmp_path / "faces.csv").write_text(client.table(image))
        face = client.predict(image).faces[0]
    record = read_csv(tmp_path / "faces.csv")[0]
    assert (record.points == face.points).all()


def test_models_tell_what_a_page_needs(server: Server) -> None:
    with Client(server.url) as client:
        model = client.models()[0]
    assert model["name"] == "luvli-68" and len(model["names"]) == 68 == len(model["schematic"])
    nu = float(model["likelihood"].removeprefix("student-"))  # of the model's calibration
    for percent, radius in model["radius"].items():
        outside = (1 + radius**2 / (nu - 2)) ** (-nu / 2)
        assert 1 - outside == pytest.approx(int(percent) / 100, abs=1e-5)


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
    api = json.loads(server.ask("GET", "/openapi.json")[2])
    assert {"/v1/predict", "/v1/models", "/healthz", "/readyz", "/metrics"} <= set(api["paths"])


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
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost.evil.example:80"}, 421),
        ({"Host": "localhost"}, 200),
        ({"Origin": server.url}, 200),
    ):
        assert server.ask("POST", "/v1/predict", image, headers)[0] == status, headers


def test_the_body_of_an_answer_does_not_wait_for_its_headers(server: Server) -> None:
    """Nagle's algorithm with delayed confirmations would cost 40 ms for each answer."""
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    seconds = []
    for _ in range(20):
        begin = time.monotonic()
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        seconds.append(time.monotonic() - begin)
    connection.close()
    assert min(seconds[5:]) < 0.035  # the kernel confirms the first few at once


def test_a_token_is_needed_where_one_is_set(
    start: Callable[..., Server], tmp_path: Any, image: bytes
) -> None:
    (tmp_path / "tokens").write_text("correct-horse-battery\n")
    server = start("--token-file", str(tmp_path / "tokens"))
    assert server.ask("GET", "/")[0] == 200 and server.ask("GET", "/healthz")[0] == 200
    for path in ("/v1/models", "/metrics", "/v1/nothing"):
        status, headers, _ = server.ask("GET", path)
        assert status == 401 and headers["WWW-Authenticate"] == "Bearer"
    with pytest.raises(ServerError, match="token") as caught:
        Client(server.url, token="wrong-horse-battery").predict(image)
    assert caught.value.status == 401
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
    from websockets.asyncio.client import connect

    async def talk() -> None:
        url = server.url.replace("http", "ws") + "/v1/stream"
        async with connect(url, max_size=None) as socket:
            await socket.send(image)
            first = json.loads(await socket.recv())
            assert first["frame"] == 0 and first["tracks"] == [1]
            face = FaceLandmarks.from_dict(first["faces"][0])
            assert face.points.shape == (68, 2)
            for _ in range(12):
                await socket.send(image)
            numbers = []
            while not numbers or numbers[-1] != 12:
                answer = json.loads(await socket.recv())
                numbers.append(answer["frame"])
            assert numbers == sorted(numbers) and len(numbers) < 12
            assert answer["dropped"] == 12 - len(numbers) and answer["tracks"] == [1]
            await socket.send(b"no image")
            assert json.loads(await socket.recv())["error"]["code"] == "not_an_image"
            await socket.send('{"smoth": true}')
            assert "smooth" in json.loads(await socket.recv())["error"]["message"]
            await socket.send('{"smooth": false}')
            await socket.send(image)
            assert len(json.loads(await socket.recv())["faces"]) == 1

    asyncio.run(talk())


def test_a_stream_of_another_web_site_is_refused(server: Server) -> None:
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus

    async def talk() -> None:
        url = server.url.replace("http", "ws") + "/v1/stream"
        with pytest.raises(InvalidStatus):
            async with connect(url, origin="https://evil.example"):  # type: ignore[arg-type]
                pass

    asyncio.run(talk())
