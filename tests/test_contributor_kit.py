"""Files for contributors: they parse, and say the same as the files they repeat."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

import luvli

ROOT = Path(__file__).resolve().parent.parent


def _yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def _recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile, without the folder of the programs."""
    text = (ROOT / "Makefile").read_text()
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert found
    return [line.strip().replace("$(BIN)/", "") for line in found[1].splitlines()]


def _steps(job: str) -> list[str]:
    steps = _yaml(".github/workflows/test.yml")["jobs"][job]["steps"]
    return [step["run"] for step in steps if "run" in step]


def test_the_workflow_runs_what_make_runs() -> None:
    assert _steps("lint")[1:] == _recipe("lint")
    assert _steps("test")[1:] == _recipe("pytest")


def test_the_workflow_tests_every_python_that_the_package_claims() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    claimed = {
        version[1]
        for line in project["classifiers"]
        if (version := re.fullmatch(r"Programming Language :: Python :: (\d\.\d+)", line))
    }
    matrix = _yaml(".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert set(matrix["python"]) == claimed
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_hooks_before_a_commit_are_those_of_lint() -> None:
    hooks = {hook["id"]: hook for hook in _yaml(".pre-commit-config.yaml")["repos"][0]["hooks"]}
    programs = [hook["entry"].split()[0] for hook in hooks.values()]
    assert programs == [command.split()[0] for command in _recipe("lint")]


def test_the_citation_is_of_this_version() -> None:
    citation = _yaml("CITATION.cff")
    assert citation["version"] == luvli.__version__
    names = [author["family-names"] for author in citation["preferred-citation"]["authors"]]
    written = "Kumar, Marks, Mou, Wang, Jones, Cherian, Koike-Akino, Liu, Feng"
    assert ", ".join(names) == written


def test_every_room_is_named_in_the_data_flow() -> None:
    """CONTRIBUTING lists the rooms in the order that the import contract enforces."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = contract["contracts"][0]["layers"][::-1]
    written = (ROOT / "CONTRIBUTING.md").read_text().split("## Data flow")[1].split("\n## ")[0]
    rooms = re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|$)", written, re.MULTILINE)
    present = {path.stem for path in (ROOT / "src/luvli").iterdir() if path.name != "__init__.py"}
    enforced = [sorted(set(re.findall(r"\w+", layer)) & present) for layer in layers]
    position = {room: i for i, names in enumerate(enforced) for room in names}
    assert set(position) - {"_lazy"} == set(rooms)
    assert [position[room] for room in rooms] == sorted(position[room] for room in rooms)


def test_the_way_from_image_to_faces_is_as_written() -> None:
    """CONTRIBUTING lists at most 20 functions, in the order in which a prediction reaches them."""
    from luvli.cli.demo import PHOTOGRAPH

    text = (ROOT / "CONTRIBUTING.md").read_text().split("**An image becomes faces**")[1]
    path = text.split("These are all the functions")[0].split("\n", 1)[1]
    written = re.findall(r"`([a-z_]+)`", path)
    assert 12 < len(written) <= 20
    model = luvli.load("luvli-68-fast", threads=1)
    called: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(ROOT / "src"):
            called.setdefault(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        model.predict(PHOTOGRAPH)
    finally:
        sys.setprofile(None)
    assert [name for name in called if name in written] == written


def test_the_way_from_a_label_file_to_a_step_is_as_written() -> None:
    """Its files are there and hold the classes and methods that are named."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split("**A label file becomes")[1]
    path = text.split("\n## ")[0]
    source = "".join(file.read_text() for file in (ROOT / "src/luvli").rglob("*.py"))
    for name in re.findall(r"`([^`]+)`", path.split("\n", 1)[1]):
        place, _, inside = name.partition(": ")
        if "/" in place:
            assert (ROOT / "src/luvli" / place).exists(), name
        for word in re.findall(r"[A-Za-z]\w+", inside if "/" in place else place):
            assert re.search(rf"(class|def) {word}\b", source), name


def test_no_two_public_things_of_one_name() -> None:
    """Classes, functions and kinds of values; commands are named after what they call."""
    places: dict[str, set[str]] = {}
    for file in (ROOT / "src/luvli").rglob("*.py"):
        place = file.relative_to(ROOT / "src/luvli").as_posix()
        for line in [] if place.startswith("cli/") else file.read_text("utf-8").splitlines():
            found = re.match(r"(?:async )?(?:def|class) (\w+)|([A-Z]\w*[a-z]\w*) = ", line)
            if found and not (name := found[1] or found[2]).startswith("_"):
                places.setdefault(name, set()).add(place)
    assert len(places) > 500
    entries = {"main"}  # of processes
    assert not {name: at for name, at in places.items() if len(at) > 1 and name not in entries}


def test_messages_name_an_extra_that_brings_the_package() -> None:
    """Every `require(module, extra)` of the source against pyproject.toml's extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    packages = {"skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "pyyaml"}

    def brings(extra: str) -> set[str]:
        found: set[str] = set()
        for line in extras[extra]:
            name, inner = re.match(r"([A-Za-z0-9_.-]+)(?:\[(.*)\])?", line).groups()  # type: ignore[union-attr]
            found |= set().union(*map(brings, inner.split(","))) if name == "luvli" else {name}
        return found

    asked = set()
    for file in (ROOT / "src").rglob("*.py"):
        asked |= set(
            re.findall(r'require\("([\w.]+)", "(\w+)"\)', file.read_text(encoding="utf-8"))
        )
    assert len(asked) > 20
    for module, extra in asked:
        package = module.split(".")[0].replace("_", "-")
        assert packages.get(package, package) in brings(extra), (module, extra)


def test_what_the_recipes_for_additions_name_is_there() -> None:
    """Files and folders, and the tables and functions that are named with them."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split("## How to add")[1]
    source = "".join(file.read_text("utf-8") for file in (ROOT / "src/luvli").rglob("*.py"))
    for place, inside in re.findall(r"`([\w/]+/[\w./]*)(?:: (\w+))?`", text):
        found = next((at for at in (ROOT / place, ROOT / "src/luvli" / place) if at.exists()), None)
        assert found, place
        assert not inside or re.search(rf"\b{inside}\b", found.read_text("utf-8")), inside
    for name in re.findall(r"`(\w*_\w+)`|`\w+\.(\w+)`", text):
        assert any(re.search(rf"\b{word}\b", source) for word in name if word), name
