"""The page in a real browser: Playwright drives the Chromium of the system."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import SECONDS
from PIL import Image
from web.conftest import CHROMIUM

import luvli
from luvli.image.read import read_image

from .conftest import EXAMPLES, Server

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
pytestmark = [
    pytest.mark.seconds(2),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]

CAMERA = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]


@pytest.fixture(scope="module")
def camera_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rendered face that moves, for Chromium's camera: JPEG after JPEG."""
    import cv2

    face = read_image(EXAMPLES / "front.jpg")[:, :, ::-1]
    path = tmp_path_factory.mktemp("camera") / "face.mjpeg"
    with path.open("wb") as stream:
        for i in range(20):
            shift = np.array([[0.75, 0, 80 + 12 * np.sin(i / 3)], [0, 0.75, 0.0]])
            frame = cv2.warpAffine(face, shift, (640, 480))
            stream.write(cv2.imencode(".jpg", frame)[1].tobytes())
    return path


@pytest.fixture(scope="module")
def browser(camera_video: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=CHROMIUM,
            args=["--no-sandbox", *CAMERA, f"--use-file-for-fake-video-capture={camera_video}"],
            viewport={"width": 1280, "height": 860},
            accept_downloads=True,
        )
        context.set_default_timeout(1000 * SECONDS)  # the machine may be busy
        yield context
        context.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """The page, fresh; at the end: no error in its console, no request to another host."""
    opened = browser.new_page()
    trouble: list[str] = []

    def console(message: Any) -> None:
        # that the server said no is told by the browser too, and tested by its words
        if message.type == "error" and "status of 4" not in message.text:
            trouble.append(message.text)

    def request(one: Any) -> None:
        if not one.url.startswith((server.url, server.url.replace("http", "ws"), "blob:")):
            trouble.append(f"request to {one.url}")

    opened.on("console", console)
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on("request", request)
    opened.on("websocket", request)
    opened.goto(server.url)
    opened.wait_for_selector("html[data-ready]")
    yield opened
    opened.close()
    assert trouble == []


def drop(page: Any, *files: tuple[str, str, bytes]) -> None:
    """Drop files on the window, as a person would."""
    data = [[name, kind, base64.b64encode(body).decode()] for name, kind, body in files]
    page.evaluate(
        """files => {
          const transfer = new DataTransfer();
          for (const [name, type, text] of files) {
            const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
            transfer.items.add(new File([bytes], name, { type }));
          }
          for (const kind of ["dragenter", "dragover", "drop"]) {
            const about = { dataTransfer: transfer, bubbles: true, cancelable: true };
            window.dispatchEvent(new DragEvent(kind, about));
          }
        }""",
        data,
    )


def coloured(page: Any) -> int:
    """Pixels of the overlay that something is drawn on."""
    count: int = page.evaluate(
        """() => {
          const canvas = document.getElementById("overlay");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          let count = 0;
          for (let i = 3; i < data.length; i += 4) count += data[i] > 8;
          return count;
        }"""
    )
    return count


def move_slider(page: Any, percent: int) -> None:
    page.locator("#coverage").fill(str(percent))
    assert page.inner_text("#coverage-out") == f"{percent} %"


def test_a_dropped_image_shows_its_landmarks(page: Any, image: bytes) -> None:
    drop(page, ("face.jpg", "image/jpeg", image))
    page.wait_for_selector("#table-card:not([hidden])")
    face = luvli.load("luvli-68").predict(image)[0]
    page.click("#tab-all")
    rows = page.locator("#all tbody tr")
    assert rows.count() == 68 == page.locator("#landmarks li").count()
    shown = [row.split("\t") for row in page.inner_text("#all tbody").splitlines()]
    names = luvli.markup.get_markup("ibug68").names
    for j, (number, name, x, y, sigma, visible) in enumerate(shown):
        assert (int(number), name) == (j, names[j])
        assert [float(x), float(y)] == pytest.approx(face.points[j], abs=0.051)
        assert float(sigma) == pytest.approx(np.linalg.det(face.covariance[j]) ** 0.25, abs=0.0051)
        assert float(visible.rstrip(" %")) == pytest.approx(100 * face.visibility[j], abs=0.51)
    measured = dict(row.split("\n") for row in page.locator("#measures dl > div").all_inner_texts())
    if face.eyes_closed is not None:
        assert measured.pop("eyes closed") == f"{100 * face.eyes_closed:.0f} %"
    assert set(measured) == {name.replace("_", " ") for name in face.measures}
    for name, measure in face.measures.items():
        value, std = measured[name.replace("_", " ")].rstrip(" px°").split(" ± ")
        precision = 10.0 ** -len(std.partition(".")[2])
        assert float(value) == pytest.approx(measure.value, abs=0.51 * precision)
        assert float(std) == pytest.approx(measure.std, abs=0.51 * precision)
    # the ellipses grow with the slider, and go with their switch
    areas = []
    for percent in (50, 90, 99):
        move_slider(page, percent)
        areas.append(coloured(page))
    assert areas[0] < areas[1] < areas[2]
    assert page.url.endswith("#coverage=99")
    page.uncheck("#show-ellipses")
    assert 0 < coloured(page) < areas[0]
    # the landmark that the hand is over, and the list of the least sure
    page.click("#tab-least")
    least = page.inner_text("#least button >> nth=0")
    spread = np.linalg.det(face.covariance) ** 0.25
    assert names[int(np.argmax(spread))] in least
    page.focus("#landmarks")
    for key in ("Home", "PageDown"):
        page.keyboard.press(key)
    assert page.get_attribute("#landmarks", "aria-activedescendant") == "landmark-1"
    assert names[1] in page.inner_text("#tip") and names[1] in page.inner_text("#said")


def test_ellipses_and_radii_are_those_of_the_library(page: Any, image: bytes) -> None:
    face = luvli.load("luvli-68").predict(image)[0]
    drawn = page.evaluate(
        """async face => {
          const { ellipse } = await import("/page/geometry.js");
          const all = face.points.map((_, j) => ellipse(face, j, 2));
          return all.map(({ a, b, angle }) => [a, b, angle]);
        }""",
        face.to_dict(),
    )
    values, vectors = np.linalg.eigh(face.covariance)
    for (a, b, angle), value, vector in zip(drawn, values, vectors, strict=True):
        assert [b, a] == pytest.approx(2 * np.sqrt(value))
        along = abs(np.dot(vector[:, 1], [np.cos(angle), np.sin(angle)]))
        assert along == pytest.approx(1, abs=1e-6) or a == pytest.approx(b, rel=1e-3)


def test_guarantees_failures_and_occlusion_are_shown(page: Any, image: bytes) -> None:
    """What a model may tell beyond the basics, in an answer made for the purpose."""
    fields = luvli.load("luvli-68").predict(image)[0].to_dict()
    fields |= {"confidence": 0.07, "expected_error": 21.5}
    fields["guaranteed"] = {"levels": [0.5, 0.9], "radii": [[3.0] * 68, [9.0] * 68]}
    answer = {"faces": [fields], "width": 640, "height": 640, "model": "luvli-68"}
    answer |= {"version": "0", "faces_left_out": 0, "timings": {"total": 1.0}}

    def show() -> int:
        page.route("**/v1/predict*", lambda route: route.fulfill(json=answer))
        drop(page, ("face.jpg", "image/jpeg", image))
        page.wait_for_selector("#table-card:not([hidden])")
        page.locator("#busy").wait_for(state="hidden")
        return coloured(page)

    own = show()
    assert "probably failed" in page.inner_text("#summary") and "7 %" in page.inner_text("#summary")
    page.check("input[value=guaranteed]", force=True)
    assert "held-out faces" in page.inner_text("#coverage-words")
    assert coloured(page) > own  # radius 9 instead of the model's 2.2
    page.locator("#coverage").fill("95")  # beyond the known levels nothing is promised
    assert coloured(page) < own
    fields |= {"confidence": 0.99, "occlusion": [1.0] * 68, "occlusion_trained": True}
    page.uncheck("#show-ellipses")
    filled = coloured(page)
    hollow = show()
    page.wait_for_selector(".thumb.done >> nth=1")
    assert 0 < hollow < filled  # and without the box around a failed face


def test_several_images_and_a_text_file(page: Any, image: bytes) -> None:
    turned = (EXAMPLES / "turned.jpg").read_bytes()
    drop(
        page,
        ("one.jpg", "image/jpeg", image),
        ("notes.txt", "text/plain", b"no image"),
        ("two.jpg", "image/jpeg", turned),
    )
    page.wait_for_selector(".thumb.done >> nth=1")
    assert page.locator(".thumb").count() == 2
    words = page.inner_text("#alerts")
    assert "notes.txt" in words and "not an image" in words
    page.click("#alerts button")
    page.click(".thumb >> nth=0")
    drop(page, ("more.txt", "text/plain", b"no image"))
    page.wait_for_selector("#alerts p >> text=more.txt")
    page.wait_for_selector(".thumb >> nth=2", state="detached")
    assert page.get_attribute(".thumb >> nth=0", "aria-current") == "true"  # still looked at
    page.click(".thumb >> nth=1")
    assert page.get_attribute(".thumb >> nth=1", "aria-current") == "true"


def test_no_face_gives_advice_and_a_turned_image_is_tried_again(page: Any, image: bytes) -> None:
    answer = {"faces": [], "width": 640, "height": 640, "model": "luvli-68", "version": "0"}
    answer |= {"faces_left_out": 0, "timings": {"total": 1.0}}
    sent: list[bytes] = []

    def respond(route: Any) -> None:
        sent.append(route.request.post_data_buffer)
        faces = luvli.predict(image).to_dicts() if len(sent) > 1 else []
        route.fulfill(json={**answer, "faces": faces})

    page.route("**/v1/predict*", respond)
    drop(page, ("face.jpg", "image/jpeg", image))
    page.wait_for_selector("#no-face:not([hidden])")
    assert "upside down" in page.inner_text("#no-face")
    page.click("#rotate")
    page.wait_for_selector("#table-card:not([hidden])")
    assert page.locator("#no-face[hidden]").count() == 1
    turned = Image.open(io.BytesIO(sent[1])).convert("RGB")
    expected = Image.open(io.BytesIO(image)).rotate(-90)  # clockwise
    difference = np.asarray(turned, float) - np.asarray(expected, float)
    assert np.abs(difference).mean() < 2  # the browser decodes JPEG in its own way


def test_heic_is_shown_through_the_server(page: Any, image: bytes) -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs pillow-heif (extra heic)")
    heif.register_heif_opener()
    stream = io.BytesIO()
    Image.open(io.BytesIO(image)).save(stream, "HEIF")
    drop(page, ("photo.heic", "image/heic", stream.getvalue()))
    page.wait_for_selector("#table-card:not([hidden])")
    assert page.inner_text("#alerts") == ""


def test_a_wrong_token_is_named(browser: Any, start: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("correct-horse-battery\n")
    server = start("--token-file", str(tmp_path / "tokens"))
    opened = browser.new_page()
    opened.goto(server.url)
    opened.wait_for_selector("#token-dialog[open]")
    assert opened.locator("#token-error[hidden]").count() == 1
    opened.fill("#token", "wrong-horse-battery")
    opened.keyboard.press("Enter")
    opened.wait_for_selector("#token-error:not([hidden])")
    assert "wrong" in opened.inner_text("#token-error")
    opened.fill("#token", "correct-horse-battery")
    opened.keyboard.press("Enter")
    opened.wait_for_selector("html[data-ready]")
    opened.close()


def test_alerts_cover_nothing_and_leave(page: Any) -> None:
    drop(page, ("notes.txt", "text/plain", b"no image"))
    page.wait_for_selector("#alerts p")
    alert, main = (page.locator(name).bounding_box() for name in ("#alerts", "main"))
    assert alert["y"] + alert["height"] <= main["y"]
    page.wait_for_selector("#alerts p", state="detached")


def test_results_can_be_kept(page: Any, image: bytes, tmp_path: Path) -> None:
    file = {"name": "a.jpg", "mimeType": "image/jpeg", "buffer": image}
    page.set_input_files("#file", files=[file])
    page.wait_for_selector("#keep-card:not([hidden])")
    kept = {}
    for kind in ("json", "csv", "png"):
        with page.expect_download() as download:
            page.click(f"#save-{kind}")
        kept[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(kept[kind])
    assert [path.name for path in kept.values()] == ["a.json", "a.csv", "a-landmarks.png"]
    assert len(json.loads(kept["json"].read_text())["faces"]) == 1
    assert len(kept["csv"].read_text().splitlines()) == 2
    assert Image.open(kept["png"]).size == (1280, 1280)


def test_a_link_brings_the_settings_back(page: Any, server: Server) -> None:
    page.goto("about:blank")
    page.goto(f"{server.url}/#coverage=75&show=points,lines&colour=part&theme=dark&region=nonsense")
    page.wait_for_selector("html[data-ready]")
    assert page.input_value("#coverage") == "75" and page.input_value("#colour") == "part"
    assert page.is_checked("#show-lines") and not page.is_checked("#show-ellipses")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_the_camera_is_followed(page: Any) -> None:
    page.click("#camera-first")
    page.wait_for_selector("#table-card:not([hidden])")
    playwright.expect(page.locator("#status")).to_contain_text("frames a second")
    assert page.locator("#landmarks li").count() == 68 and coloured(page) > 500
    page.click("#camera")  # stop: the last frame stays
    assert page.inner_text("#camera") == "Camera" and page.is_visible("#table-card")


def axe_source() -> str:
    """axe-core, from LUVLI_AXE, .axe/node_modules or npm's global folder."""
    places = [Path(os.environ["LUVLI_AXE"])] if "LUVLI_AXE" in os.environ else []
    root = Path(__file__).resolve().parents[2]
    places.append(root / ".axe/node_modules/axe-core/axe.min.js")
    if npm := shutil.which("npm"):
        found = subprocess.run(
            [npm, "root", "--global"], capture_output=True, text=True, check=False
        )
        places.append(Path(found.stdout.strip()) / "axe-core/axe.min.js")
    for place in places:
        if place.is_file():
            return place.read_text(encoding="utf-8")
    pytest.skip("needs axe-core: npm install --prefix .axe axe-core")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everyone_can_use_it(page: Any, image: bytes, theme: str) -> None:
    source = axe_source()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # no colours in passing

    def violations() -> list[str]:
        page.evaluate(source)
        result = page.evaluate("axe.run({ resultTypes: ['violations'] })")
        return [
            f"{rule['id']}: {node['html']}"
            for rule in result["violations"]
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]

    assert violations() == []
    drop(page, ("face.jpg", "image/jpeg", image), ("notes.txt", "text/plain", b"no"))
    page.wait_for_selector("#alerts p")
    page.wait_for_selector("#table-card:not([hidden])")
    page.click("#tab-all")
    page.focus("#landmarks")
    assert violations() == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(page.url.split("#")[0] + "docs")
    page.wait_for_selector("#paths .path")
    assert violations() == []
