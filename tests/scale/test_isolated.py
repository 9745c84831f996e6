"""Readers that crash, hang or are killed: a bad image costs one row, a good one none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result
from luvli.scale import isolated
from luvli.scale.isolated import IsolatedReader
from luvli.scale.parts import Part
from luvli.scale.prepare import ReadSettings

from .conftest import worker

SETTINGS_MODULE = '''
"""A detector that does what the image's name says."""
import os, signal, time

class Odd:
    def __call__(self, image, name=""):
        short = os.path.basename(name)
        if "crash" in short:
            os.kill(os.getpid(), signal.SIGSEGV)
        if "hang" in short:
            time.sleep(600)
        if "once" in short:  # killed from outside, but for the last time
            marks = name + ".killed"
            count = len(open(marks).read()) if os.path.exists(marks) else 0
            if count < 2:
                open(marks, "a").write("x")
                os.kill(os.getpid(), signal.SIGKILL)
        return []
'''


@pytest.fixture
def odd(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[IsolatedReader]:
    (tmp_path / "odd_detector.py").write_text(SETTINGS_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    from importlib import import_module

    sys.modules.pop("odd_detector", None)
    detector = import_module("odd_detector").Odd()
    reader = IsolatedReader(ReadSettings(predictor.info, 0.6, detector=detector), patience=300)
    yield reader
    reader.close()


def part_of(names: list[str], photos: Path, folder: Path) -> Part:
    places = []
    for name in names:
        (folder / name).write_bytes((photos / "blank.png").read_bytes())
        places.append(str(folder / name))
    return Part(0, "files", places[0], len(places), places)


@pytest.mark.slow
def test_a_crash_costs_one_row_and_a_kill_none(
    odd: IsolatedReader, photos: Path, tmp_path: Path
) -> None:
    names = ["a.png", "crash.png", "b.png", "once.png", "c.png"]
    part = part_of(names, photos, tmp_path)
    ready = list(odd.images(part))
    assert [Path(one.name).name for one in ready] == names
    errors = [one.error for one in ready]
    assert [bool(error) for error in errors] == [False, True, False, False, False], errors
    assert "crash.png crashed its decoder (SIGSEGV)" in ready[1].error
    assert (tmp_path / "once.png.killed").read_text() == "xx"


@pytest.fixture
def whole(odd: IsolatedReader, predictor: Predictor, tmp_path: Path) -> Iterator[IsolatedReader]:
    """The same detector, in a child that also has the network."""
    assert isinstance(odd.settings, ReadSettings)
    settings = replace(worker(predictor, tmp_path), read=odd.settings)
    reader = IsolatedReader(settings, patience=300)
    yield reader
    reader.close()


@pytest.mark.slow
def test_a_crash_among_others_costs_one_row_and_a_kill_none(
    whole: IsolatedReader, photos: Path, tmp_path: Path
) -> None:
    """Images go through the network together until one of them ends the child."""
    names = ["a.png", "b.png", "crash.png", "c.png", "once.png", "d.png"]
    done = list(whole.results(part_of(names, photos, tmp_path)))
    assert [Path(one.name).name for one in done] == names
    failed = [one.result for one in done if isinstance(one.result, str)]
    assert len(failed) == 1 and "crash.png crashed its decoder (SIGSEGV)" in failed[0]
    assert (tmp_path / "once.png.killed").read_text() == "xx"
    again = list(whole.results(part_of(["a.png", "b.png"], photos, tmp_path)))
    assert [one.result for one in again] == [done[0].result, done[1].result]


def test_the_child_finds_what_the_predictor_finds(
    predictor: Predictor, photos: Path, tmp_path: Path
) -> None:
    """Two by two and together, to the last digit of a file; what cannot be read is a sentence."""
    places = [str(path) for path in sorted(photos.rglob("*.*"))]
    part = Part(0, "files", places[0], len(places), places)
    reader = IsolatedReader(worker(predictor, tmp_path))
    try:
        together = list(reader.results(part))
        pairs = [one for some in reader._ask("results", part, 0, 2) for one in some or ()]
    finally:
        reader.close()
    assert [one.name for one in together] == [one.name for one in pairs] == places
    for one, other in zip(together, pairs, strict=True):
        if one.name.endswith("broken.jpg"):
            assert isinstance(one.result, str) and "is not an image" in one.result
        else:
            assert isinstance(one.result, Result) and isinstance(other.result, Result)
            assert one.result.to_line() == other.result.to_line()
            alone = Result(one.name, tuple(predictor.predict(one.name)))
            assert one.result.to_line() == alone.to_line()
            assert {"read", "decode", "detect", "crop", "network"} == set(one.seconds)


@pytest.mark.slow
def test_a_picture_that_hangs_is_given_up(
    odd: IsolatedReader, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "ATTEMPTS", 1)
    part = part_of(["a.png", "hang.png", "b.png"], photos, tmp_path)
    answers = odd.images(part)
    first = next(answers)
    odd.patience = 1.0  # the reader is warm now
    hung = next(answers)
    odd.patience = 300.0
    rest = list(answers)
    assert not first.error and len(rest) == 1 and not rest[0].error
    assert "hang.png took longer than 1 seconds" in hung.error


def test_a_reader_ends_with_its_parent(odd: IsolatedReader, photos: Path, tmp_path: Path) -> None:
    list(odd.images(part_of(["a.png"], photos, tmp_path)))
    child = odd._child
    assert child is not None and child.stdin is not None
    child.stdin.close()  # what the kernel does when the parent dies
    assert child.wait(timeout=300) == 0


@pytest.mark.slow
def test_a_half_read_part_leaves_nothing_for_the_next(
    odd: IsolatedReader, photos: Path, tmp_path: Path
) -> None:
    part = part_of(["a.png", "b.png", "c.png"], photos, tmp_path)
    answers = odd.images(part)
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    assert [Path(one.name).name for one in odd.images(part, 1)] == ["b.png", "c.png"]
