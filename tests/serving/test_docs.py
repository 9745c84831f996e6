"""The examples of docs/serving.md are run as they stand, against a real server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from luvli.serving.settings import Limits

from .conftest import EXAMPLES, Server

DOCS = Path(__file__).resolve().parents[2] / "docs/serving.md"
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "photo.jpg").write_bytes((EXAMPLES / "front.jpg").read_bytes())
    return tmp_path


def examples(language: str) -> str:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found, language
    return "\n".join(found)


def run(command: list[str], place: Path) -> str:
    result = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_shell(server: Server, place: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: apt-get install curl")
    script = examples("sh").replace(ADDRESS, server.url).replace("curl", "curl -sSf")
    shown = run(["bash", "-ec", script], place)
    assert shown.count('"faces":') == 3 and "box_x0" in shown
    assert (place / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_python(server: Server, place: Path) -> None:
    code = examples("python").replace(ADDRESS, server.url)
    assert run([sys.executable, "-c", f"{code}\nprint(len(face), len(both))"], place) == "68 2\n"


def test_javascript(server: Server, place: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: apt-get install nodejs")
    code = examples("js").replace(ADDRESS, server.url)
    read = 'const blob = new Blob([(await import("fs")).readFileSync("photo.jpg")]);'
    shown = run([node, "--input-type=module", "-e", f"{read}\n{code}"], place)
    assert re.match(r"\[ [\d.]+, [\d.]+ \]", shown)


def test_every_limit_is_in_the_table() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+)", DOCS.read_text(), re.MULTILINE))
    defaults: dict[str, Any] = Limits().model_dump()
    assert {name: float(value.replace(",", "")) for name, value in rows.items()} == defaults
