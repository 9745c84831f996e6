"""The camera of the demo in headless Chromium beside `model.track` in Python, one thread each.

    make web && python benchmarks/browser.py       needs Playwright and Chromium; about a minute

Printed are milliseconds of the processor for a frame of 640 x 480 pixels with one face, in the
browser those of the page's main thread (network, readback and drawing), and what the clock said. On
a busy machine the clock says little.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from playwright.sync_api import sync_playwright

import luvli
from luvli.cli.output import print_table
from luvli.image.read import ImageArray, read_image
from luvli.serving.settings import PAGE

MODEL = "luvli-68-open"
SITE = Path(__file__).parents[1] / "site/demo"
COUNT_FRAMES = """() => {
  window.frames = 0;
  for (const kind of [CanvasRenderingContext2D, OffscreenCanvasRenderingContext2D]) {
    const read = kind.prototype.getImageData;
    kind.prototype.getImageData = function (...all) {
      window.frames++;
      return read.apply(this, all);
    };
  }
}"""


class Files(SimpleHTTPRequestHandler):
    """Serves the demo."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *_: Any) -> None:
        """Say nothing about requests."""


def moving_face() -> list[ImageArray]:
    """Frames (480, 640, 3) of a rendered face that goes left and right."""
    face = read_image(PAGE / "examples/front.jpg")
    shifts = [80 + 12 * np.sin(i / 3) for i in range(20)]
    maps = [np.array([[0.75, 0, shift], [0, 0.75, 0.0]]) for shift in shifts]
    return [np.asarray(cv2.warpAffine(face, each, (640, 480)), np.uint8) for each in maps]


def in_python(frames: list[ImageArray], rounds: int) -> tuple[float, float]:
    """Milliseconds of the processor for a frame, and frames a second by the clock."""
    cv2.setNumThreads(1)
    model = luvli.load(MODEL, threads=1)
    list(model.track(frames))
    start, clock = time.process_time(), time.perf_counter()
    count = len(list(model.track(frames * rounds)))
    used, seconds = time.process_time() - start, time.perf_counter() - clock
    return used / count * 1e3, count / seconds


def in_browser(frames: list[ImageArray], chromium: str, seconds: float) -> tuple[float, float]:
    """The same of the page's camera."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        camera = Path(folder) / "face.mjpeg"
        jpegs = [cv2.imencode(".jpg", frame[:, :, ::-1])[1].tobytes() for frame in frames]
        camera.write_bytes(b"".join(jpegs))
        media = [f"--use-{kind}-for-media-stream" for kind in ("fake-ui", "fake-device")]
        options = ["--no-sandbox", *media, f"--use-file-for-fake-video-capture={camera}"]
        browser = driver.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page()
        page.set_default_timeout(300_000)
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        page.wait_for_selector("html[data-ready]")
        page.evaluate(COUNT_FRAMES)
        page.click("#camera-first")
        page.wait_for_function("window.frames > 20")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def used() -> tuple[float, int, float]:
            metrics = session.send("Performance.getMetrics")["metrics"]
            values = {metric["name"]: metric["value"] for metric in metrics}
            return values["ThreadTime"], page.evaluate("window.frames"), time.perf_counter()

        before = used()
        time.sleep(seconds)
        busy, count, clock = (late - early for late, early in zip(used(), before, strict=True))
        browser.close()
    server.shutdown()
    return busy / count * 1e3, count / clock


def main() -> None:
    """Both, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15, help="of the camera")
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    options = parser.parse_args()
    if not SITE.is_dir():
        print("the demo is not built: make web")
        return
    frames = moving_face()
    python = in_python(frames, 10)
    browser = in_browser(frames, options.chromium, options.seconds)
    rows = [
        [name, f"{ms:.1f}", f"{1e3 / ms:.0f}", f"{rate:.1f}"]
        for name, (ms, rate) in {"Python": python, "browser": browser}.items()
    ]
    print_table(["", "ms a frame", "frames a second of it", "by the clock"], rows, title="camera")
    print(f"browser / Python: {browser[0] / python[0]:.1f}")


if __name__ == "__main__":
    main()
