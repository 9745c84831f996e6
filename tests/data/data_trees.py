"""Miniature data sets, written in the exact layouts that the readers expect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from luvli.markup import get_markup

Floats = NDArray[np.float64]


def face_points(markup: str = "ibug68", seed: int = 0, size: int = 100) -> Floats:
    """(k, 2) a plausible face inside a `size` x `size` image, first pixel centre (0, 0)."""
    rng = np.random.default_rng(seed)
    drawing = get_markup(markup).schematic
    return np.round(size / 2 + drawing * size * 0.3 + rng.normal(0, 0.5, drawing.shape), 3)


def write_image(path: Path, size: tuple[int, int] = (100, 100), seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def write_raw_pts(path: Path, rows: NDArray[np.floating] | list[tuple[float, float]]) -> Path:
    """A `.pts` file with these numbers as they stand, independent of the project's writer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(f"{x} {y}" for x, y in rows)
    path.write_text(f"version: 1\nn_points:  {len(rows)}\n{{\n{lines}\n}}")
    return path


def write_pair(folder: Path, stem: str, points: Floats, suffix: str = ".jpg") -> None:
    """An image and its `.pts`, counted from 1."""
    write_image(folder / f"{stem}{suffix}")
    write_raw_pts(folder / f"{stem}.pts", points + 1)


def write_hrnet(path: Path, rows: list[tuple[str, float, float | None, Floats, Floats]]) -> Path:
    """Rows of (image, scale, box_size or None, centre, points)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = len(rows[0][4])
    sized = rows[0][2] is not None
    header = ["image_name", "scale", *(["box_size"] if sized else []), "center_w", "center_h"]
    header += [f"original_{j}_{axis}" for j in range(count) for axis in "xy"]
    lines = [",".join(header)]
    for name, scale, box_size, centre, points in rows:
        numbers = [scale, *([box_size] if sized else []), *centre, *points.ravel()]
        lines.append(",".join([name, *(repr(float(value)) for value in numbers)]))
    path.write_text("\n".join(lines) + "\n")
    return path
