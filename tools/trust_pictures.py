"""The pictures of docs/trust.md: rendered people, so nobody's photograph.

    python tools/trust_pictures.py --head ict_facekit.npz --out docs/trust

`confidence.jpg` shows faces as they are and with each corruption that the confidence was fitted on,
`regions.jpg` one face with the model's own ellipses and with those that have a guarantee,
`blinks.png` what examples/driver_monitoring.py draws of a rendered person who blinks twice.
"""

from __future__ import annotations

import argparse
import runpy
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import cv2
import numpy as np
from numpy.typing import NDArray

import luvli
from luvli.calibration.corruptions import CORRUPTIONS, FaceScene, corrupt, cut_scene
from luvli.drawing.sheet import captioned, contact_sheet
from luvli.face_landmarks import confidence_text
from luvli.faces import FaceLandmarks
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.prediction.predictor import Predictor
from luvli.synthetic.heads.head import Head
from luvli.synthetic.people.person import Person, random_person
from luvli.synthetic.render import load_head, render_face

EXAMPLE = Path(__file__).parents[1] / "examples/driver_monitoring.py"
PEOPLE = ((9, 0), (42, 5), (66, 15))
"""seed and yaw in degrees of those who are shown"""
COVERAGE = 0.9
WIDE = 420
BLUE, GREEN, YELLOW = (60, 120, 230), (0, 200, 70), (250, 220, 0)


def scene_of(head: Head, seed: int, yaw: float) -> FaceScene:
    """One rendered person, cut around the face."""
    sample = render_face([7, seed], head, pose=(yaw, 0, 0), occluders=False, effects=False)
    x0, y0, x1, y1 = sample.record.tight_box.tolist()
    box = Box(x0, y0, x1, y1, score=0.93)
    return cut_scene(sample.image, box, sample.record.points)


def confidences(model: Predictor, head: Head) -> ImageArray:
    """Twelve panels: a plain face, and one with each corruption."""
    rng = np.random.default_rng(3)
    scenes = [scene_of(head, seed, yaw) for seed, yaw in PEOPLE]
    shown = [scenes[0]]
    for number, kind in enumerate(CORRUPTIONS, start=1):
        scene, *others = scenes[number % 3 :] + scenes[: number % 3]
        shown.append(corrupt(scene, kind, rng, others))
    panels = []
    for scene in shown:
        (face,) = model.predict(scene.image, boxes=[scene.box])
        title = f"{scene.corruption} {confidence_text(face.confidence)}"
        panels.append(captioned(luvli.draw(scene.image, [face]), title, 24))
    return contact_sheet(panels, 4)


def with_outlines(
    image: ImageArray, crop: Crop, outlines: NDArray[np.float64], colour: tuple[int, int, int]
) -> ImageArray:
    """The crop with closed curves (k, m, 2) of the image on it."""
    canvas = image.copy()
    for curve in outlines:
        path = np.round(crop.to_crop(curve) * 16).astype(np.int32)
        cv2.polylines(canvas, [path], True, colour, 1, cv2.LINE_AA, 4)
    return canvas


def regions(model: Predictor, head: Head) -> ImageArray:
    """The same face three times: the model's ellipses, regions, joint regions."""
    scene = scene_of(head, *PEOPLE[1])
    face: FaceLandmarks = model.predict(scene.image, boxes=[scene.box])[0]
    crop = Crop.from_box(scene.box, WIDE, 1.35)
    image = crop.warp(scene.image)
    kinds = {
        f"ellipses(coverage={COVERAGE})": (face.ellipses(coverage=COVERAGE), BLUE),
        f"region({COVERAGE})": (face.region(COVERAGE), GREEN),
        f"region({COVERAGE}, joint=True)": (face.region(COVERAGE, joint=True), YELLOW),
    }
    angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    panels = []
    for words, (ellipses, colour) in kinds.items():
        turn = np.radians(ellipses.angle)
        first = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
        second = np.stack([-np.sin(turn), np.cos(turn)], axis=-1)
        axes = np.stack([first, second], axis=1) * ellipses.half_axes[:, :, None]
        outlines = ellipses.centre[:, None] + np.einsum("ma,kad->kmd", circle, axes)
        panels.append(captioned(with_outlines(image, crop, outlines, colour), words, 24))
    return contact_sheet(panels, len(panels))


def blinking_clip(head: Head, path: Path) -> None:
    """Four seconds of one person, 15 images each, who blinks at 1 s and at 2.6 s."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 15, (192, 192))
    for i in range(60):
        shut = max(float(np.exp(-(((i / 15 - at) / 0.09) ** 2))) for at in (1.0, 2.6))

        def person(*arguments: object, shut: float = shut) -> Person:
            made = random_person(head, arguments[1], 0.0)  # type: ignore[arg-type]
            weights = made.expression + head.weights(eyeBlink=shut)
            return replace(made, expression=np.clip(weights, 0, 1.05).astype(np.float32))

        with patch("luvli.synthetic.render.random_person", person):
            sample = render_face([7, 9], head, 192, pose=(5, 0, 0), occluders=False, effects=False)
        writer.write(np.ascontiguousarray(sample.image[:, :, ::-1]))
    writer.release()


def blinks(head: Head, out: Path) -> None:
    """The trace that the example draws."""
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "blinks.mp4"
        blinking_clip(head, clip)
        runpy.run_path(str(EXAMPLE))["main"](str(clip))
        shutil.copy(clip.with_name("blinks-eyes.png"), out / "blinks.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--head", default="procedural", help="an ICT FaceKit model")
    parser.add_argument("--model", default="luvli-68")
    parser.add_argument("--out", type=Path, default=Path("docs/trust"))
    options = parser.parse_args()
    model, head = luvli.load(options.model), load_head(options.head)
    write_image(options.out / "confidence.jpg", confidences(model, head))
    write_image(options.out / "regions.jpg", regions(model, head))
    blinks(head, options.out)


if __name__ == "__main__":
    main()
