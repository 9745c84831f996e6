"""The site builds without a warning, and its search works from disk without the network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds: every link and every name of the API reference exists."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_the_site_builds_strictly(site: Path) -> None:
    assert (site / "search/search_index.json").is_file()
    assert "FaceLandmarks" in (site / "api.html").read_text(encoding="utf-8")


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    """Scripts, images and style sheets; links to other sites are for people to follow."""
    fetched = re.compile(r'<(?:script|img|iframe)[^>]*\bsrc="https?:|rel="stylesheet"[^>]*"https?:')
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    assert not [page for page in pages if fetched.search(page.read_text(encoding="utf-8"))]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_search_works_from_disk(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    asked: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(0)  # as long as it takes
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "howto/video.html").as_uri())
        page.keyboard.press("f")
        page.keyboard.type("conformal")
        found = page.locator(".md-search-result__item").first
        found.wait_for()
        assert "guarantee" in found.inner_text()
        browser.close()
    assert asked and all(url.startswith("file:") for url in asked), asked


def test_the_readme_lists_the_shipped_models_as_their_cards_do() -> None:
    """One row for each: error on 300-W and milliseconds for a face."""
    from luvli.models import model_names, read_card

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([\w-]+)` \| [^|]+ \| ([\d.]+) % \| ([\d.]+) ms \|", text, re.MULTILINE
    )
    told = {name: read_card(name).headline for name in model_names()}
    assert rows == [(n, f"{h.nme_300w:.1f}", f"{h.milliseconds:.1f}") for n, h in told.items() if h]
