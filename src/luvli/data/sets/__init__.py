"""The data sets of the paper, each read from the layout people have on disk.

    faces = load_set("merl_rav", "data/merl_rav", split="test", subset="profile")

`SETS` lists them; `load_set` reads one part of one and refuses bad data unless told to
skip it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

from luvli.data.record import FaceRecord
from luvli.data.sets import (
    aflw19,
    canada,
    cfp,
    closed_eyes,
    cofw68,
    folder,
    london,
    menpo,
    merl_rav,
    multipie,
    parquet,
    portraits,
    scut,
    w300,
    w300lp,
    wflw,
)
from luvli.data.sets.definition import (
    DataWarning,
    FaceSet,
    Note,
    Problem,
    ReadItem,
    Request,
    SetInfo,
    implausible,
    off_image_invisible,
    subsets_of,
)
from luvli.errors import InputError, unknown_choice
from luvli.files import PathLike

__all__ = [
    "SETS",
    "DataWarning",
    "FaceSet",
    "Problem",
    "SetInfo",
    "check_images",
    "get_set",
    "load_set",
    "nothing_there",
    "read_set",
    "refuse",
    "subsets_of",
    "wrong_folder",
]

SETS: dict[str, SetInfo] = {
    module.INFO.name: module.INFO
    for module in (
        *(w300, w300lp, menpo, cofw68, aflw19, wflw, merl_rav, multipie),
        *(cfp, scut, closed_eyes, london, canada, portraits, folder, parquet),
    )
}

OffImage = Literal["labelled", "invisible"]

SHOWN = 5
"""how many problems an error message names"""


def get_set(name: str) -> SetInfo:
    """The data set called `name`; the error for an unknown one lists the choices."""
    if name not in SETS:
        raise unknown_choice("data set", name, SETS)
    return SETS[name]


def load_set(
    name: str,
    root: PathLike,
    split: str | None = None,
    *,
    subset: str | None = None,
    protocol: str | None = None,
    skip_bad: bool = False,
    images: bool = True,
    off_image: OffImage = "labelled",
) -> FaceSet:
    """The faces of one part of a data set.

    `split` defaults to the set's first (usually "train"), `protocol` to the one that the
    files on disk are made for. With `images=False` only labels are read and records have no
    image. `off_image="invisible"` is the published code's reading of AFLW-19 and WFLW: a
    landmark left of or above the image counts as self-occluded.

    Bad data raises an `InputError` that names the first few problems and counts them; with
    `skip_bad=True` those faces are left out, a `DataWarning` says how many, and the result's
    `problems` lists them.
    """
    if off_image not in get_args(OffImage):
        raise unknown_choice("treatment of landmarks off the image", off_image, get_args(OffImage))
    result = read_set(name, root, split, subset=subset, protocol=protocol, images=images)
    if off_image == "invisible":
        hidden = [off_image_invisible(record) for record in result]
        result = FaceSet(hidden, name, result.split, result.problems, result.notes)
    if nothing_there(result):
        raise wrong_folder(name, root)
    if result.problems and not skip_bad:
        raise refuse(result.problems, f"{name} {result.split}")
    for note in result.notes:
        warnings.warn(note, DataWarning, stacklevel=2)
    if result.problems:
        warnings.warn(
            f"{name} {result.split}: {len(result.problems):,} problems skipped, "
            f"{len(result):,} faces are left; the first: {result.problems[0]}",
            DataWarning,
            stacklevel=2,
        )
    if not len(result):
        raise InputError(f"{root} has no faces of {name} {result.split}: check the folder.")
    return result


def read_set(
    name: str,
    root: PathLike,
    split: str | None = None,
    *,
    subset: str | None = None,
    protocol: str | None = None,
    images: bool = True,
) -> FaceSet:
    """As `load_set`, but problems are only listed, in the result's `problems`."""
    info = get_set(name)
    path = Path(root)
    if not path.is_dir():
        raise InputError(f"{path} is not a folder: give the folder that holds {info.layout}.")
    if protocol is None:
        protocol = info.detect(path) if info.detect else info.protocols[0]
    split = split or info.splits[0]
    for what, given, choices in (
        ("protocol", protocol, info.protocols),
        ("split", split, info.splits),
        ("subset", subset, info.subsets),
    ):
        if given is not None and given not in choices:
            raise unknown_choice(f"{what} of {name}", given, choices)
    request = Request(path, split, protocol, subset, images)
    faces: list[FaceRecord] = []
    problems: list[Problem] = []
    notes: list[str] = []
    for item in _to_the_end(info.read(request), path):
        if isinstance(item, Note):
            notes.append(item.sentence)
        elif isinstance(item, Problem):
            problems.append(item)
        elif (problem := implausible(item)) is not None:
            problems.append(problem)
        else:
            faces.append(item)
    return FaceSet(faces, name, split, problems, notes)


def nothing_there(result: FaceSet) -> bool:
    """Whether the folder seems to be another one: no faces, and whole files or folders missing."""
    return not len(result) and all(
        problem.kind in ("missing folder", "missing file") for problem in result.problems
    )


def wrong_folder(name: str, root: PathLike) -> InputError:
    """The sentence for a folder that does not hold the data set."""
    faces = "labelled faces" if name == "folder" else f"faces of {name}"
    return InputError(f"{root} holds no {faces}: it should hold {get_set(name).layout}.")


def _to_the_end(items: Iterator[ReadItem], root: Path) -> Iterator[ReadItem]:
    """A file that cannot be read at all ends its reader; that is one more problem."""
    try:
        yield from items
    except InputError as error:
        yield Problem(str(root), "bad label", str(error))


def refuse(problems: Iterable[Problem], where: str) -> InputError:
    """The error that names the first few problems and counts them all."""
    listed = list(problems)
    shown = " ".join(str(problem) for problem in listed[:SHOWN])
    more = f" And {len(listed) - SHOWN:,} more." if len(listed) > SHOWN else ""
    return InputError(
        f"{where} has {len(listed):,} problems; mend them, or skip them with --skip-bad "
        f"(skip_bad=True): {shown}{more}"
    )


def check_images(
    records: Iterable[FaceRecord],
    track: Callable[[Iterable[FaceRecord]], Iterable[FaceRecord]] = iter,
) -> Iterator[Problem]:
    """Decode every image: those that do not, and landmarks far outside those that do.

    `track` may wrap the records in a progress bar. The faces of one image that follow
    each other share one decoding.
    """
    from luvli.image import read_image

    last: tuple[Path, tuple[int, int] | str] | None = None
    for record in track(records):
        if record.image is None:
            continue
        if last is None or last[0] != record.image:
            try:
                height, width = read_image(record.image).shape[:2]
                last = (record.image, (width, height))
            except InputError as error:
                last = (record.image, str(error))
        if isinstance(last[1], str):
            yield Problem(str(record.image), "bad image", last[1])
        elif (problem := implausible(record, last[1])) is not None:
            yield problem
