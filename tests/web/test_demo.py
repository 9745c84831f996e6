"""The static page: no server, nothing leaves the device, no more to fetch than 15 MB."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luvli
from luvli.image.read import read_image

from .conftest import WEB, build

EXAMPLES = Path(luvli.__file__).parent / "serving/page/examples"
MAX_BYTES = 15_000_000


@pytest.fixture(scope="module")
def demo(node: str, assets: Path, site: tuple[str, Path]) -> str:
    """Address of the page as `make web` builds it."""
    address, folder = site
    build(node, "--config", "vite.demo.ts",
          LUVLI_WEB_ASSETS=str(assets), LUVLI_WEB_OUT=str(folder / "demo"))  # fmt: skip
    return f"{address}/demo/index.html"


@pytest.fixture
def page(demo: str, browser: Any) -> Iterator[Any]:
    """The page; at the end: no error, no request to another host, nothing sent anywhere."""
    opened = browser.new_page(viewport={"width": 390, "height": 844})
    opened.set_default_timeout(300_000)
    trouble: list[str] = []
    fetched: dict[str, int] = {}

    def request(one: Any) -> None:
        if one.method != "GET" or not one.url.startswith((demo.rsplit("/", 2)[0], "blob:")):
            trouble.append(f"{one.method} {one.url}")

    def response(one: Any) -> None:
        if one.url.startswith("http"):
            fetched[one.url] = int(one.headers.get("content-length", 0))

    opened.on("request", request)
    opened.on("response", response)
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.goto(demo)
    opened.wait_for_selector("html[data-ready]")
    opened.fetched = fetched
    yield opened
    opened.close()
    assert trouble == []


@pytest.mark.slow
def test_an_example_is_predicted_in_the_browser(page: Any) -> None:
    assert "Nothing leaves your device" in page.inner_text("#empty")
    page.click("#examples button >> nth=0")
    page.wait_for_selector("#faces-card:not([hidden])")
    assert page.locator("#landmarks li").count() == 68
    assert sum(page.fetched.values()) < MAX_BYTES
    model = luvli.load("luvli-68-open", threads=1)
    face = model.predict(read_image(EXAMPLES / "front.jpg"))[0]
    measures = page.inner_text("#measures")
    openness = face.measures["right_eye_openness"].value
    assert f"{openness:.2f}" in measures or f"{openness + 0.01:.2f}" in measures
    with page.expect_download() as download:
        page.click("#save-json")
    (found,) = json.loads(Path(download.value.path()).read_text())["faces"]
    np.testing.assert_allclose(found["points"], face.points, atol=0.5)  # another JPEG decoder
    pose = face.head_pose()  # which also knows perspective and how people differ
    assert abs(found["measures"]["yaw"]["value"] - pose.yaw) < 6
    assert abs(found["measures"]["roll"]["value"] - pose.roll) < 3
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0


def test_the_units_of_the_package_hold(node: str) -> None:
    done = subprocess.run(
        [node, WEB / "node_modules/vitest/vitest.mjs", "run"],
        cwd=WEB, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_program_for_node_gives_what_python_gives(node: str) -> None:
    """The program that docs/howto/deploy.md names."""
    image = EXAMPLES / "front.jpg"
    model = luvli.load("luvli-68-open", threads=1)
    with tempfile.TemporaryDirectory(dir=WEB) as folder:
        place = Path(folder)
        shutil.copyfile(WEB.parent / "examples/deploy.mjs", place / "deploy.mjs")
        shutil.copyfile(luvli.models.find_model("luvli-68-open"), place / "mine.onnx")
        shutil.copyfile(image, place / "photo.jpg")
        box = model.predict(read_image(image))[0].box
        (wanted,) = model.predict(read_image(image), [box])
        arguments = [f"{edge:.6f}" for edge in box]
        done = subprocess.run(
            [node, "deploy.mjs", "mine.onnx", "photo.jpg", *arguments],
            cwd=place, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    words = done.stdout.replace(",", " ").split()
    nose = [float(word) for word in words[1:3]]
    np.testing.assert_allclose(nose, wanted.points[30], atol=0.5)
    assert abs(float(words[-1]) - wanted.confidence) < 0.02
