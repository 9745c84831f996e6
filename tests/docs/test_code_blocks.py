"""Every Python and shell block of README and docs, run as printed.

The blocks of one page run in order, in one folder that holds what a newcomer would have: a few
images, a video, labelled faces. Python blocks of a page share their names. A block that cannot
run here says why in a comment before it: `<!-- not run: REASON -->`.

README's commands are given to a shell. On the other pages a block of nothing but `luvli` commands
runs in this process, where PyTorch and scipy are loaded once and not again for every line.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command
from typer.testing import Result

from luvli.cli import app
from luvli.training.recipe_files import recipe_names

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n+)?"
    r"^```(?P<language>python|sh)[^\n]*\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class CodeBlock(NamedTuple):
    language: str
    code: str
    line: int
    reason: str | None


def blocks(page: Path) -> list[CodeBlock]:
    text = page.read_text(encoding="utf-8")
    return [
        CodeBlock(m["language"], m["code"], text[: m.start("code")].count("\n") + 1, m["reason"])
        for m in FENCE.finditer(text)
    ]


def run_shell(code: str, folder: Path) -> None:
    scripts = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def plain_commands(code: str) -> list[list[str]] | None:
    """The arguments of each line if all are calls of `luvli` with nothing for a shell to do."""
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"|#[^\n]*", "", code)
    if re.search(r"[|<>&;$`*?~{}\[\]()]", unquoted):
        return None
    lines = code.replace("\\\n", " ").splitlines()
    words = [line for line in (shlex.split(line, comments=True) for line in lines) if line]
    return [line[1:] for line in words] if all(line[0] == "luvli" for line in words) else None


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.reason is None for block in blocks(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_code_blocks_run_as_printed(
    page: Path,
    newcomer_folder: Path,
    luvli: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    to_run = [block for block in blocks(page) if block.reason is None]
    folder = tmp_path / "work"
    shutil.copytree(newcomer_folder, folder)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in to_run:
        commands = plain_commands(block.code) if page.name != "README.md" else None
        if block.language == "sh" and commands is not None:
            for arguments in commands:
                done = luvli(*arguments)
                assert done.exit_code == 0, f"{arguments}: {done.output[-2000:]} {done.exception!r}"
        elif block.language == "sh":
            run_shell(block.code, folder)
        else:
            exec(compile(block.code, f"{page.name}:{block.line}", "exec"), names)


def test_blocks_are_found() -> None:
    """The pattern sees the blocks of README, and the reasons of those that are not run."""
    found = blocks(ROOT / "README.md")
    assert {block.language for block in found} == {"python", "sh"}
    assert all(block.reason is None or len(block.reason) > 10 for block in found)


def commands_not_run() -> list[list[str]]:
    """The calls of `luvli` in blocks that cannot run here, without comments and redirections."""
    found = []
    for page in PAGES:
        for block in blocks(page):
            if block.reason is not None and block.language == "sh":
                for line in block.code.replace("\\\n", " ").splitlines():
                    words = shlex.split(line.replace("$(which luvli)", "luvli"), comments=True)
                    if "luvli" in words and words[0] in ("luvli", "torchrun"):
                        found.append(words[words.index("luvli") + 1 :])
                        if "--import" in found[-1]:  # of every verb
                            place = found[-1].index("--import")
                            del found[-1][place : place + 2]
    return found


def test_commands_that_are_not_run_exist_as_printed() -> None:
    """Verbs, options and recipes; what they would read is not here."""
    command: Any
    commands = commands_not_run()
    assert len(commands) > 10
    for arguments in commands:
        command, context, rest = get_command(app), None, list(arguments)
        while hasattr(command, "commands"):
            assert rest[0] in command.commands, f"luvli {' '.join(arguments)}"
            command = command.commands[rest.pop(0)]
        context = command.make_context(arguments[0], list(rest))  # refuses unknown options
        if arguments[0] == "train":
            recipe = str(context.params["recipe"])
            assert recipe in (*recipe_names(), "RECIPE") or recipe.endswith(".yaml"), recipe


def test_what_a_shell_must_do_is_seen() -> None:
    plain = "luvli predict 'photos/*.png' --out \\\n results  # not < videos\n\nluvli paper 4\n"
    expected = [["predict", "photos/*.png", "--out", "results"], ["paper", "4"]]
    assert plain_commands(plain) == expected
    for code in ("luvli predict *.png", "luvli paper | head", "pip install x", "A=1 luvli paper",
                 "luvli predict - < x.jpg", "luvli serve &", "luvli paper; ls"):  # fmt: skip
        assert plain_commands(code) is None
