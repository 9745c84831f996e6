"""The examples for production: a container file and a systemd unit, as far as they can be checked
without a container or systemd running."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer

from luvli.cli import app

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/serving"


def options_of_serve() -> set[str]:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts}


def test_the_image_copies_what_the_package_is_built_from() -> None:
    lines = (EXAMPLES / "Dockerfile").read_text().splitlines()
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    needed |= {"src", *project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]}
    assert needed <= copied
    assert all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert not copied & set(ignored)


@pytest.mark.parametrize("path", [EXAMPLES / "Dockerfile", ROOT / "Dockerfile"])
def test_containers_call_the_command_as_it_is(path: Path) -> None:
    text = path.read_text()
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", text, re.M)
    assert entry is not None
    words = json.loads(entry[1])
    # comments show the calls; one may go on in the next line and end in a remark
    shown = re.sub(r"\\\n#\s*", "", text)
    served = re.findall(r"luvli\s+(serve .*)$", shown, re.M)
    calls = [words[1:]] if len(words) > 1 else [shlex.split(call, True) for call in served]
    assert calls
    for call in calls:
        assert call[0] == "serve"
        assert {word for word in call if word.startswith("--")} <= options_of_serve()
        assert "--token-file" in call or "--open" in call  # else it refuses to listen to others
    assert re.search(r"^USER (?!root)", text, re.M)


def test_the_unit_is_what_systemd_takes(tmp_path: Path) -> None:
    text = (EXAMPLES / "luvli.service").read_text()
    start = re.search(r"^ExecStart=(.*)$", text, re.M)
    assert start is not None
    call = start[1].split()
    assert call[1] == "serve"
    assert {word for word in call if word.startswith("--")} <= options_of_serve()
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    unit = tmp_path / "luvli.service"  # verify wants the program to exist
    unit.write_text(text.replace(call[0], shutil.which("true") or "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0 and not checked.stderr, checked.stderr
