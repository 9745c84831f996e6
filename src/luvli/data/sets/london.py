"""The Face Research Lab London Set: frontal portraits that anyone may use (CC BY 4.0).

`neutral_NNN_03.jpg` and `smiling_NNN_03.jpg` of 102 people, and `points189.json` with 189 points
of a template of its own for the neutral ones. 63 of the 68 landmarks can be read from it; the
others (tip and floor of the nose, inner corners of the mouth) and all landmarks of smiling faces
stay unlabelled. DeBruine and Jones, 2017, doi 10.6084/m9.figshare.5047666.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets.definition import Problem, ReadItem, Request, SetInfo, missing_image
from luvli.data.sets.source_files import Folder
from luvli.files import read_text

Floats = NDArray[np.float64]
LABELS = "points189.json"

# The outline of the face in the template, from beside each eye to the chin.
_RIGHT_JAW = (109, 185, 110, 186, 111, 125, 126, 127, 128, 129)
_LEFT_JAW = (112, 187, 113, 188, 114, 133, 132, 131, 130, 129)
# Landmark -> the template points whose mean it is.
_OTHERS: dict[int, tuple[int, ...]] = {
    17: (71,), 18: (72,), 19: (73,), 20: (74,), 21: (75, 76),
    22: (77, 78), 23: (79,), 24: (80,), 25: (81,), 26: (82,),
    27: (50, 56), 28: (51, 57), 29: (52, 53, 58, 59), 31: (64,), 33: (55,), 35: (69,),
    36: (18,), 37: (19,), 38: (21,), 39: (22,), 40: (30,), 41: (28,),
    42: (23,), 43: (24,), 44: (26,), 45: (27,), 46: (33,), 47: (31,),
    48: (87,), 49: (88,), 50: (89,), 51: (90,), 52: (91,), 53: (92,), 54: (93,),
    55: (108,), 56: (107,), 57: (106,), 58: (105,), 59: (104,),
    61: (95,), 62: (96,), 63: (97,), 65: (102,), 66: (101,), 67: (100,),
}  # fmt: skip


def landmarks_of_template(template: Floats) -> Floats:
    """(189, 2) points of the template as (68, 2); NaN where it has none."""
    points = np.full((68, 2), np.nan)
    points[:9] = _evenly(template[list(_RIGHT_JAW)], 9)
    points[8:17] = _evenly(template[list(_LEFT_JAW)], 9)[::-1]
    for landmark, sources in _OTHERS.items():
        points[landmark] = template[list(sources)].mean(axis=0)
    return points


def _evenly(line: Floats, count: int) -> Floats:
    """`count` points at equal distances along a line (m, 2)."""
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    at = np.linspace(0, along[-1], count)
    return np.stack([np.interp(at, along, line[:, k]) for k in (0, 1)], axis=1)


def read_london(request: Request) -> Iterator[ReadItem]:
    """Portraits with the subsets `neutral` and `smiling`; a person is `london-NNN`."""
    path = request.root / LABELS
    if not path.is_file():
        yield Problem(str(path), "missing file", f"{path} is missing: copy it there.")
        return
    templates = json.loads(read_text(path))
    folder = Folder(request.root)
    for number, mood in enumerate(("neutral", "smiling"), start=1):
        if not request.wants(mood):
            continue
        for image in folder.images:
            if image.name.startswith(mood):
                yield _record(image, mood, number, templates.get(image.name), request.images)
        for name in templates if mood == "neutral" and request.images else ():
            if folder.image(Path(name).stem) is None:
                yield missing_image(path, name)


def _record(
    image: Path, mood: str, number: int, template: list[list[float]] | None, with_image: bool
) -> FaceRecord:
    points = np.full((68, 2), np.nan)
    if template is not None:
        points = landmarks_of_template(np.array(template, dtype=np.float64))
    known = np.isfinite(points).all(axis=1)
    person = image.stem.split("_")[1]
    return FaceRecord(
        points=points,
        visibility=np.where(known, Visibility.UNOCCLUDED, Visibility.UNLABELLED),
        image=image if with_image else None,
        dataset="london",
        face_id=f"london-{person}_{number}",
        attributes={"subsets": [mood]},
    )


INFO = SetInfo(
    name="london",
    title="London portraits",
    markup="ibug68",
    points="68/63",
    train=204,
    test=None,
    profile="no",
    self_occlusion="no",
    external_occlusion="no",
    read=read_london,
    splits=("train",),
    subsets=("neutral", "smiling"),
    licence="CC BY 4.0 (DeBruine and Jones 2017)",
    layout="neutral_*.jpg, smiling_*.jpg and points189.json",
    confirmed="204 portraits and the points of 102",
)
