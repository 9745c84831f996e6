"""The data sets of the paper, each read from the layout people have on disk.

    faces = load_set("merl_rav/test/profile", "data/merl_rav")

`SETS` lists them; `load_set` reads one part of one and refuses bad data unless it may skip it.
Wherever a data set is named, parts of it can be named with it (`parse_part`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets import (
    aflw19,
    cfp,
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
    ONLY_PROTOCOL,
    DataWarning,
    FaceSet,
    Problem,
    Reading,
    SetInfo,
    subsets_of,
)
from luvli.errors import InputError, check_choice, unknown_choice
from luvli.files import PathLike, packaged_toml

__all__ = [
    "SETS",
    "DataWarning",
    "FaceSet",
    "Problem",
    "SetInfo",
    "check_folder",
    "get_set",
    "load_set",
    "parse_part",
    "read_set",
    "refuse",
    "subsets_of",
]

_READERS: dict[str, Callable[[Reading], None]] = {
    "w300": w300.read_w300,
    "w300lp": w300lp.read_w300lp,
    "menpo": menpo.read_menpo,
    "cofw68": cofw68.read_cofw68,
    "aflw19": aflw19.read_aflw19,
    "wflw": wflw.read_wflw,
    "merl_rav": merl_rav.read_merl_rav,
    "multipie": multipie.read_multipie,
    "cfp": cfp.read_cfp,
    "scut": scut.read_scut,
    "closed_eyes": partial(portraits.read_portraits, eyes="closed"),
    "london": london.read_london,
    "canada": london.read_canada,
    "portraits": portraits.read_portraits,
    "folder": folder.read_folder,
    "parquet": parquet.read_parquet_set,
}
_DETECT = {"wflw": wflw.detect_wflw}
SETS: dict[str, SetInfo] = {
    name: SetInfo(name, _READERS[name], detect=_DETECT.get(name), **facts)
    for name, facts in packaged_toml(__name__, "sets.toml").items()
}

OffImage = Literal["labelled", "invisible"]
_Boxes = Literal["set", "tight"]
"""`set`: the data set's own boxes, where it has them. `tight`: those of the landmarks, which are
cropped by with noise of 5 % (`luvli.data.boxes`)"""


def get_set(name: str) -> SetInfo:
    """The data set called `name`; the error for an unknown one lists the choices."""
    return SETS[check_choice("data set", name.partition("/")[0], SETS)]


class SetPart(NamedTuple):
    """A data set and the part of it that its name says; None: not said."""

    name: str
    split: str | None
    protocol: str | None
    subset: str | None


def parse_part(name: str) -> SetPart:
    """The parts in `SET/PART/...`: a split, a protocol and a subset of the set, in any order.

    >>> parse_part("w300/split2/indoor")
    SetPart(name='w300', split=None, protocol='split2', subset='indoor')
    """
    info = get_set(name)
    choices = {"split": info.splits, "protocol": info.protocols, "subset": info.subsets}
    chosen: dict[str, str] = {}
    for part in name.split("/")[1:]:
        kinds = [kind for kind in choices if kind not in chosen]
        kind = next((kind for kind in kinds if part in choices[kind]), None)
        if kind is None:
            known = dict.fromkeys(choice for kind in kinds for choice in choices[kind])
            known.pop(ONLY_PROTOCOL, None)
            raise unknown_choice(f"part of {info.name}", part, known)
        chosen[kind] = part
    return SetPart(info.name, *(chosen.get(kind) for kind in choices))


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
    boxes: _Boxes = "set",
) -> FaceSet:
    """The faces of one part of a data set.

    `name` is that of the set alone, or with parts: `merl_rav/test/profile`. `split` defaults to
    the set's first (usually "train"), `protocol` to the one that the files on disk are made for.
    With `images=False` only labels are read and records have no image. `off_image="invisible"` is
    the published code's reading of AFLW-19 and WFLW: a landmark left of or above the image counts
    as self-occluded. `boxes="tight"` forgets the set's own boxes.

    Bad data raises an `InputError` that names the first few problems and counts them; with
    `skip_bad=True` those faces are left out, a `DataWarning` says how many, and the result's
    `problems` lists them.
    """
    check_choice("treatment of landmarks off the image", off_image, get_args(OffImage))
    check_choice("kind of boxes", boxes, get_args(_Boxes))
    faces = read_set(name, root, split, subset=subset, protocol=protocol, images=images)
    part = f"{faces.name} {faces.split}"
    check_folder(faces.name, root, len(faces), faces.problems)
    if faces.problems and not skip_bad:
        raise refuse(faces.problems, part)
    if off_image == "invisible":
        first_pixel = get_set(name).first_pixel
        faces[:] = [_hide_off_image(record, first_pixel) for record in faces]
    if boxes == "tight":
        faces[:] = [record.with_changes(box=None) for record in faces]
    for note in faces.notes:
        warnings.warn(note, DataWarning, stacklevel=2)
    if faces.problems:
        sentence = (
            f"{part}: {len(faces.problems):,} problems skipped, {len(faces):,} faces are left; the "
            f"first: {faces.problems[0]}"
        )
        warnings.warn(sentence, DataWarning, stacklevel=2)
    if not faces:
        raise InputError(f"{root} has no faces of {part}: check the folder.")
    return faces


def _hide_off_image(record: FaceRecord, first_pixel: int) -> FaceRecord:
    """Landmarks left of or above the image as self-occluded: in AFLW-19 and WFLW a missing label
    is a coordinate of at most zero in the file, whose first pixel is called `first_pixel`."""
    off = record.visible & (np.nan_to_num(record.points, nan=1.0) + first_pixel <= 0).any(axis=1)
    classes = np.where(off, Visibility.SELF_OCCLUDED, record.visibility)
    return record.with_changes(visibility=classes)


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
    info, part, path = get_set(name), parse_part(name), Path(root)
    if not path.is_dir():
        raise InputError(f"{path} is not a folder: give the folder that holds {info.layout}.")
    on_disk = info.detect(path) if info.detect else info.protocols[0]
    split = split or part.split or info.splits[0]
    check_choice(f"split of {info.name}", split, info.splits)
    protocol = protocol or part.protocol or on_disk
    check_choice(f"protocol of {info.name}", protocol, info.protocols)
    if subset := subset or part.subset:
        check_choice(f"subset of {info.name}", subset, info.subsets)
    reading = Reading(path, info, split, protocol, subset, images)
    try:
        info.read(reading)
    except InputError as error:  # a file that cannot be read at all ends its reader
        reading.problem(path, "bad label", str(error))
    return reading.found


def check_folder(name: str, root: PathLike, faces: int, problems: Iterable[Problem]) -> None:
    """Refuse what seems to be another folder: no faces, and whole files or folders missing."""
    if not faces and all(p.kind in ("missing folder", "missing file") for p in problems):
        what = "labelled faces" if name == "folder" else f"faces of {name}"
        raise InputError(f"{root} holds no {what}: it should hold {get_set(name).layout}.")


def refuse(problems: Iterable[Problem], where: str) -> InputError:
    """The error that names the first few problems and counts them all."""
    sentences, shown = [str(problem) for problem in problems], 5
    more = f" And {len(sentences) - shown:,} more." if len(sentences) > shown else ""
    return InputError(
        f"{where} has {len(sentences):,} problems; mend them, or skip them with --skip-bad "
        f"(skip_bad=True): {' '.join(sentences[:shown])}{more}"
    )
