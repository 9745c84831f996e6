"""COFW-68: the 507 test faces of COFW with 68 points and occlusion flags.

Images: `COFW_test_color.mat` (Matlab 7.3, that is HDF5; variable IsT, a cell of images)
or the older `COFW_test.mat`. They are written once as PNG files into the cache folder, so
that everything after the reader works on files. Labels: `test_annotations/N_points.mat` with
Points (68, 2), counted from 1, and Occ (68 flags: externally occluded). Boxes of the iBUG
detector: `cofw68_test_bboxes.mat` (x, y, width, height).

Eight occluded landmarks lie left of or above their image. Their coordinates are negative
by themselves and stay so; nothing is mirrored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.cache import unpacked_folder
from luvli.data.formats.checked import expecting
from luvli.data.formats.common import face
from luvli.data.formats.matlab import read_matlab, read_matlab_floats
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import Folder, natural_key
from luvli.errors import InputError, require

_IMAGE_FILES = ("COFW_test_color.mat", "COFW_test.mat")
_BOX_FILE = "cofw68_test_bboxes.mat"


def read_cofw68(reading: Reading) -> None:
    """All 507 faces, test only."""
    files = sorted(reading.root.rglob("*_points.mat"), key=lambda path: natural_key(path.name))
    labels = {int(n): path for path in files if (n := path.name.split("_")[0]).isdecimal()}
    if not labels:
        reading.missing_folder(reading.root / "test_annotations", "507 files N_points.mat")
        return
    boxes: dict[int, Floats] = {}
    for file in reading.root.rglob(_BOX_FILE):
        with reading.reporting(file):
            boxes = _read_boxes(file)
    images: Folder | None = None
    source = next((p for name in _IMAGE_FILES for p in reading.root.rglob(name)), None)
    if reading.images and source is None:
        reading.missing_file(reading.root / _IMAGE_FILES[0])
    elif reading.images and source:
        with reading.reporting(source):
            images = Folder(unpacked_folder("cofw68", source, partial(_write_images, source)))
    for number, label in labels.items():
        face_id, name = f"{number:04d}", f"image {number} of {_IMAGE_FILES[0]}"
        read = partial(_face, label, boxes.get(number))
        reading.face(label, face_id, read, images.image(face_id) if images else None, name)
    reading.count_boxes([boxes.get(number) for number in labels], _BOX_FILE)


def _write_images(source: Path, folder: Path) -> None:
    from PIL import Image

    for number, image in enumerate(_images(source), start=1):
        Image.fromarray(image).save(folder / f"{number:04d}.png", compress_level=1)


def _images(source: Path) -> Iterator[NDArray[np.uint8]]:
    with source.open("rb") as stream:
        head = stream.read(128)
    if b"MATLAB 7.3" not in head and not head.startswith(b"\x89HDF"):
        for cell in np.ravel(read_matlab(source, "IsT")[0]):
            yield np.asarray(cell, dtype=np.uint8)
        return
    h5py = require("h5py", "evaluate")
    with (
        expecting(source, "a readable Matlab file", "download it again"),
        h5py.File(source) as file,
    ):
        if "IsT" not in file:
            raise InputError(f"{source} has no variable 'IsT': is it the right file?")
        for reference in np.ravel(file["IsT"][()]):
            stored: Any = file[reference][()]
            # Matlab keeps columns first: (3, width, height), or (width, height) for grey.
            yield np.ascontiguousarray(np.asarray(stored, dtype=np.uint8).T)


def _read_boxes(path: Path) -> dict[int, Floats]:
    rows = read_matlab_floats(path, "bboxes", (-1, 4))
    corners = np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:]], axis=1) - 1
    return dict(enumerate(corners, start=1))


def _face(label: Path, box: Floats | None) -> FaceRecord:
    points, occluded = read_matlab(label, "Points", "Occ")
    hidden = np.ravel(occluded).astype(bool)
    classes = np.where(hidden, Visibility.EXTERNALLY_OCCLUDED, Visibility.UNOCCLUDED)
    return face(np.asarray(points, float) - 1, "", classes, box=box, box_kind="detector")
