"""Decoded pieces of the images, kept in one memory-mapped file.

Training shows each face hundreds of times. Decoding its photograph each time would cost far
more than everything else, so the square around the face that augmentation can reach is cut
out once, at a resolution a little above that of the crops; after that a sample is one warp
from memory. The file is made once, whole or not at all, and found again by a key of all that
it depends on: images (path, size, date), boxes, and how they are cut.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.cache import allocate, cache_root, file_state, whole_folder
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Problem, implausible
from luvli.errors import InputError
from luvli.files import PathLike
from luvli.image import Box, Crop, read_image
from luvli.image.read import ImageArray
from luvli.progress import Track

_VERSION = 2


class Patches:
    """One square piece of image for each face; cheap to copy to other processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with np.load(folder / "index.npz") as index:
            self.affine: Floats = index["affine"]
            """(n, 2, 3) image pixels -> patch pixels"""
            self.image_size: NDArray[np.int64] = index["image_size"]
            """(n, 2) width and height of the image, in pixels"""
        rows = json.loads((folder / "problems.json").read_text(encoding="utf-8"))
        self.problems = {int(row): Problem(**fields) for row, fields in rows.items()}
        """what is wrong with the images that could not be used, by the number of the face"""
        self._pixels: NDArray[np.uint8] | None = None

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """(n, P, P, 3), a view of the file."""
        if self._pixels is None:
            self._pixels = np.load(self.folder / "pixels.npy", mmap_mode="r")
        return self._pixels

    def __getstate__(self) -> dict[str, Any]:
        # A memory map would be pickled as gigabytes; another process opens its own.
        return {**self.__dict__, "_pixels": None}


def load_patches(
    records: Sequence[FaceRecord],
    boxes: Sequence[Box],
    side: float,
    pixels: int,
    folder: PathLike | None = None,
    track: Track = iter,
) -> Patches:
    """The patches of these faces, made now if they are not there yet.

    `side`: of the square around each box, in units of the box's longer side. `pixels`: side
    of a patch. `folder` defaults to the user's cache. `track` may wrap the work in a
    progress bar. Images that do not decode, or that the landmarks miss by far, are listed
    in the result's `problems`; their patches are black.
    """
    target = Path(folder or cache_root()) / f"patches-{_key(records, boxes, side, pixels)}"
    try:
        patches = Patches(target)
        if patches.pixels.shape == (len(records), pixels, pixels, 3):
            return patches
    except Exception:  # not there yet, or damaged, of which every way has an exception of its own
        pass
    shutil.rmtree(target, ignore_errors=True)  # it costs time, not results
    with whole_folder(target) as temporary:
        _build(temporary, records, boxes, side, pixels, track)
    return Patches(target)


def _build(
    folder: Path,
    records: Sequence[FaceRecord],
    boxes: Sequence[Box],
    side: float,
    pixels: int,
    track: Track,
) -> None:
    count, file = len(records), folder / "pixels.npy"
    shape = (count, pixels, pixels, 3)
    stack = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=shape)
    allocate(file)
    affine, image_size = np.zeros((count, 2, 3)), np.zeros((count, 2), dtype=np.int64)

    def cut(i: int) -> Problem | None:
        image, problem = usable_image(records[i])
        if image is not None:
            crop = Crop.from_box(boxes[i], pixels, side)
            stack[i], affine[i] = crop.warp(image), crop.affine
            image_size[i] = image.shape[1], image.shape[0]
        return problem

    def work() -> Iterator[Problem | None]:
        """On all cores (decoders release Python's lock), in parts that can be interrupted."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for start in range(0, count, 64):
                yield from pool.map(cut, range(start, min(count, start + 64)))

    problems = {i: vars(problem) for i, problem in enumerate(track(work())) if problem}
    stack.flush()
    np.savez(folder / "index.npz", affine=affine, image_size=image_size)
    (folder / "problems.json").write_text(json.dumps(problems), encoding="utf-8")


def usable_image(record: FaceRecord) -> tuple[ImageArray | None, Problem | None]:
    """The face's image, or what is wrong with it or with its labels."""
    if record.image is None:
        return None, Problem(record.name, "missing image", f"{record.name} has no image.")
    try:
        image = read_image(record.image)
    except InputError as error:
        return None, Problem(str(record.image), "bad image", str(error))
    problem = implausible(record, (image.shape[1], image.shape[0]))
    return (None, problem) if problem else (image, None)


def _key(records: Sequence[FaceRecord], boxes: Sequence[Box], side: float, pixels: int) -> str:
    digest = hashlib.sha256(f"{_VERSION} {side!r} {pixels}".encode())
    for record, box in zip(records, boxes, strict=True):
        state = "" if record.image is None else file_state(record.image)
        digest.update(repr((*box, state)).encode())
    return digest.hexdigest()[:24]
