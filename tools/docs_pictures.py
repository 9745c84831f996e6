"""Pictures that explain the documentation: one face in every output, a crop, a risk-coverage curve,
and a tracked face with and without smoothing.

    python tools/docs_pictures.py --out docs/pictures

The photograph is NASA's portrait of Eileen Collins, which is in the public domain.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Rectangle
from numpy.typing import NDArray
from PIL import Image

import luvli
from luvli.cli.demo import PHOTOGRAPH
from luvli.face_landmarks import confidence_text
from luvli.faces import FaceLandmarks
from luvli.image.read import ImageArray, read_image
from luvli.measures.rotation import rotation_matrix
from luvli.prediction.predictor import Predictor
from luvli.prediction.video import Frame

YELLOW, BLUE, RED, GREEN = "#ffd21f", "#2f7bff", "#e23b3b", "#25a25a"
FRAMES, RATE = 40, 16.0
"""of the tracked clip, and frames a second"""
NOISE = 22.0
"""grey levels, standard deviation: what makes landmarks shake from frame to frame"""


def outputs(model: Predictor, image: ImageArray) -> Figure:
    """One face in every output."""
    view = model.predict(image)[0].crop(image, size=420, margin=0.35)
    view[232:345, 128:262] = (96, 120, 142)  # a card before the mouth
    face = model.predict(view)[0]
    panels: list[tuple[str, Callable[[Axes, FaceLandmarks], None]]] = [
        ("points", _points),
        ("covariance: 90 % ellipses", lambda axes, f: _ellipses(axes, f.ellipses(coverage=0.9))),
        ("region(0.9): guaranteed", lambda axes, f: _ellipses(axes, f.region(0.9), GREEN)),
        ("occlusion: what covers a landmark", _occlusion),
        ("sample(12): plausible faces", _samples),
        ("parts by name", _parts),
        ("head_pose()", _pose),
        ("measures and confidence", _measures),
    ]
    figure, grid = plt.subplots(2, 4, figsize=(14, 7.6))
    for axes, (title, draw) in zip(grid.flat, panels, strict=True):
        axes.imshow(view)
        draw(axes, face)
        axes.set_title(title, fontsize=12)
        _frame(axes, view)
    figure.tight_layout()
    return figure


def _frame(axes: Axes, view: ImageArray) -> None:
    axes.set_xlim(0, view.shape[1])
    axes.set_ylim(view.shape[0], 0)
    axes.axis("off")


def _points(axes: Axes, face: FaceLandmarks, colour: Any = YELLOW, size: float = 9) -> None:
    axes.scatter(face.points[:, 0], face.points[:, 1], s=size, c=colour, zorder=3)


def _ellipses(axes: Axes, ellipses: Any, colour: str = BLUE) -> None:
    for centre, half, angle in zip(*ellipses, strict=True):
        axes.add_patch(
            Ellipse(
                tuple(centre), *(2 * half), angle=float(angle), fill=False, color=colour, lw=1.2
            )
        )


def _occlusion(axes: Axes, face: FaceLandmarks) -> None:
    x, y = face.points.T
    axes.scatter(x, y, s=18, c=face.occlusion, cmap="RdYlGn_r", vmin=0, vmax=1, zorder=3)


def _samples(axes: Axes, face: FaceLandmarks) -> None:
    for points in face.sample(12, seed=0):
        axes.scatter(points[:, 0], points[:, 1], s=3, color=YELLOW, alpha=0.7, zorder=3)


def _parts(axes: Axes, face: FaceLandmarks) -> None:
    for name, colour in (
        ("left_eye", BLUE),
        ("right_eye", GREEN),
        ("nose", YELLOW),
        ("mouth", RED),
    ):
        part = face[name]
        axes.scatter(part.points[:, 0], part.points[:, 1], s=12, color=colour, zorder=3)
        axes.annotate(
            name, part.points.min(axis=0) - (0, 12), color="white", fontsize=9,
            bbox={"boxstyle": "round", "fc": "black", "alpha": 0.55, "lw": 0},
        )  # fmt: skip


def _pose(axes: Axes, face: FaceLandmarks) -> None:
    pose = face.head_pose()
    rotation = rotation_matrix(*pose[:3])
    start, length = face.points[30], 90.0
    for axis, colour in zip(np.eye(3), (RED, GREEN, BLUE), strict=True):
        end = start + length * (rotation @ axis)[:2] * np.array([1, -1])
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2.2})
    rows = [
        f"{name} {value:+.0f} ± {deviation:.0f} degrees"
        for name, value, deviation in zip(
            ("yaw", "pitch", "roll"), pose[:3], pose.deviation, strict=True
        )
    ]
    _text(axes, rows)


def _measures(axes: Axes, face: FaceLandmarks) -> None:
    names = ("left_eye_openness", "right_eye_openness", "mouth_openness", "interocular_distance")
    rows = [f"confidence {confidence_text(face.confidence)}"]
    for name in names:
        measure = face.measures[name]
        rows.append(f"{name.replace('_', ' ')} {measure.value:.3g} ± {measure.std:.2g}")
    _text(axes, rows)


def _text(axes: Axes, rows: list[str]) -> None:
    axes.text(
        0.02, 0.02, "\n".join(rows), transform=axes.transAxes, va="bottom", fontsize=10,
        color="white", bbox={"boxstyle": "round", "fc": "black", "alpha": 0.6, "lw": 0},
    )  # fmt: skip


def crop_anatomy(model: Predictor, image: ImageArray) -> Figure:
    """The tight box, the square crop around it, and the crop as the network sees it."""
    face = model.predict(image)[0]
    x0, y0, x1, y1 = face.box
    enlarge, size = model.info.enlarge, model.info.config.input_size
    side = max(x1 - x0, y1 - y0) * enlarge
    centre = np.array([(x0 + x1) / 2, (y0 + y1) / 2])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5))
    left.imshow(image)
    left.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, color=YELLOW, lw=2))
    left.add_patch(Rectangle(tuple(centre - side / 2), side, side, fill=False, color=BLUE, lw=2))
    left.annotate(
        "tight landmark box", (x1, y1), (x1 + 55, y1 + 70), color="white", fontsize=11,
        arrowprops={"arrowstyle": "->", "color": YELLOW},
        bbox={"fc": "black", "alpha": 0.6, "lw": 0},
    )  # fmt: skip
    left.annotate(
        f"crop: a square, {enlarge} x the longer side", centre - side / 2, (15, 25),
        color="white", fontsize=11, arrowprops={"arrowstyle": "->", "color": BLUE},
        bbox={"fc": "black", "alpha": 0.6, "lw": 0},
    )  # fmt: skip
    left.set_xlim(0, image.shape[1])
    left.set_ylim(360, 0)
    left.axis("off")
    crop = model.info.crop_for(model.detect(image)[0])
    right.imshow(crop.warp(image), extent=(-0.5, size - 0.5, size - 0.5, -0.5))
    right.set_title(f"what the network sees: {size} x {size} pixels")
    right.set_xlabel("u, crop pixels")
    right.set_ylabel("v")
    figure.tight_layout()
    return figure


def risk_coverage() -> Figure:
    """How to read a risk-coverage curve, on drawn numbers."""
    rng = np.random.default_rng(4)
    confidence = rng.beta(6, 1.2, 4000)
    failed = rng.random(4000) > confidence**0.45
    order = np.argsort(-confidence)
    accepted = np.arange(1, 4001) / 4000
    risk = np.cumsum(failed[order]) / np.arange(1, 4001)
    figure, axes = plt.subplots(figsize=(7.5, 4.4))
    axes.plot(100 * accepted[40:], 100 * risk[40:], color=BLUE, lw=2)
    wanted = 5.0
    share = 100 * accepted[np.flatnonzero(100 * risk <= wanted).max()]
    axes.axhline(wanted, color=RED, ls="--", lw=1)
    axes.axvline(share, color=GREEN, ls="--", lw=1)
    axes.annotate("the failure rate you allow", (2, wanted + 0.25), color=RED)
    axes.annotate("accepted: use them", (share - 2, 0.3), color=GREEN, ha="right")
    axes.annotate("for review", (share + 2, 0.3), color=GREEN)
    axes.annotate(
        "all faces", (100, 100 * risk[-1]), (84, 100 * risk[-1] + 0.8),
        arrowprops={"arrowstyle": "->"},
    )  # fmt: skip
    axes.set_xlabel("faces accepted, the most confident first (%)")
    axes.set_ylabel("failed among them (%)")
    axes.set_ylim(0, 100 * risk[-1] + 2)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def _clip(image: ImageArray) -> list[ImageArray]:
    """The portrait, moving slowly."""
    frames = []
    for number in range(FRAMES):
        phase = 2 * np.pi * number / FRAMES
        shift = np.array([[1, 0, -115 + 9 * np.sin(phase)], [0, 1, -35 + 4 * np.cos(phase)]])
        frame = cv2.warpAffine(image, shift, (220, 220))
        frames.append(np.asarray(cv2.GaussianBlur(frame, (0, 0), 1.6), np.uint8))
    return frames


def tracking(model: Predictor, image: ImageArray, path: Path) -> None:
    """An animation: frame by frame on the left, smoothed on the right.

    The model sees frames with noise of their own; they are drawn without it, which compresses
    better.
    """
    clean = _clip(image)
    rng = np.random.default_rng(0)
    noisy = [np.clip(frame + rng.normal(0, NOISE, frame.shape), 0, 255) for frame in clean]
    sources = [
        Frame(number, number / RATE, frame.astype(np.uint8)) for number, frame in enumerate(noisy)
    ]
    drawn: dict[bool, list[NDArray[np.uint8]]] = {}
    for smooth in (False, True):
        drawn[smooth] = [
            np.asarray(luvli.draw(image, faces, enlarge=1.4), np.uint8)
            for image, (_, faces) in zip(
                clean, model.track(sources, smooth=smooth, rate=RATE), strict=True
            )
        ]
    pairs = zip(drawn[False], drawn[True], strict=True)
    images = [Image.fromarray(np.hstack(pair)) for pair in pairs]
    images[0].save(
        path,
        save_all=True,
        append_images=images[1:],
        duration=round(1000 / RATE),
        loop=0,
        quality=40,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--model", default="luvli-68")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    model = luvli.load(arguments.model, threads=1)
    image = read_image(PHOTOGRAPH)
    figures = {
        "outputs": outputs(model, image),
        "crop": crop_anatomy(model, image),
        "risk-coverage": risk_coverage(),
    }
    for name, figure in figures.items():
        figure.savefig(arguments.out / f"{name}.jpg", dpi=90, pil_kwargs={"quality": 85})
    tracking(model, image, arguments.out / "tracking.webp")


if __name__ == "__main__":
    main()
