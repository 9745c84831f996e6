"""A browser, a web server for files, and the package as Vite builds it; skipped without node."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
RUNTIME = WEB / "node_modules/onnxruntime-web/dist"
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def node() -> str:
    """The program node, with the packages of web/ installed."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("needs node: apt-get install nodejs")
    if not RUNTIME.is_dir():
        pytest.skip(
            "needs the packages of web/: npm install --no-save --ignore-scripts --prefix web"
        )
    return program


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model, detector and what the demo's page says about them."""
    folder = tmp_path_factory.mktemp("assets")
    subprocess.run([sys.executable, WEB / "assets.py", folder], check=True)
    return folder


def build(node: str, *arguments: str | Path, **environment: str) -> None:
    import os

    done = subprocess.run(
        [node, WEB / "node_modules/vite/bin/vite.js", "build", *arguments],
        cwd=WEB, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class _Quiet(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript", ".wasm": "application/wasm"
    }  # fmt: skip

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address and folder of a server of files."""
    folder = tmp_path_factory.mktemp("site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")  # an open one keeps an event loop running
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    flags = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield opened
        opened.close()
