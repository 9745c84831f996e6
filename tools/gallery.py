"""The gallery of hard images in the documentation, and the first picture of README.

    python tools/gallery.py --head ict_facekit.npz --out docs/gallery.jpg
    python tools/gallery.py --portrait --out docs/first-look.jpg

Each panel is an image as the model meets it, with what it answers drawn on it and its confidence
below. The gallery shows rendered people, so nobody's photograph; `--head` is an ICT FaceKit
model, without it the built-in head is rendered, which is plainer. `--portrait` shows NASA's
portrait of Eileen Collins, which is in the public domain, degraded more and more.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

import luvli
from luvli.cli.demo import PHOTOGRAPH
from luvli.drawing.sheet import captioned, contact_sheet
from luvli.face_landmarks import confidence_text
from luvli.image.box import Box
from luvli.image.read import ImageArray, read_image
from luvli.image.write import write_image
from luvli.prediction.predictor import Predictor
from luvli.synthetic.heads.head import Head
from luvli.synthetic.render import load_head, render_face

SIDE = 300
REFUSED = 0.5
"""below this confidence a program should not use a face"""


class Panel(NamedTuple):
    title: str
    image: ImageArray
    box: Box | None = None
    """where the face is, for images in which the detector may find none"""


def panels(head: Head) -> list[Panel]:
    """What is hard: a turned head, things in front, bad light and focus, many, and nothing."""

    def person(seed: int, yaw: float = 0.0, size: int = SIDE, bare: bool = False) -> ImageArray:
        return render_face(
            [11, seed], head, size=size, pose=(yaw, 0, 0), occluders=not bare, effects=not bare
        ).image

    crowd = [person(seed, yaw, 100) for seed, yaw in CROWD]
    lost = cv2.GaussianBlur(person(27, 20, bare=True), (0, 0), 22)
    blurred = cv2.GaussianBlur(person(16, 5, bare=True), (0, 0), 5)
    noise = np.random.default_rng(0).normal(0, 45, (SIDE, SIDE, 3))
    noisy = (person(38, 15, bare=True) + noise).clip(0, 255)
    return [
        Panel("half-profile", person(14, 45)),
        Panel("profile", person(27, 80, bare=True)),
        Panel("hand", person(20, 10)),
        Panel("sunglasses", person(36, -5)),
        Panel("blur", np.asarray(blurred, np.uint8)),
        Panel("noise", noisy.astype(np.uint8)),
        Panel("crowd", contact_sheet(crowd, 3)),
        Panel("lost", np.asarray(lost, np.uint8), Box(90, 100, 210, 220)),
    ]


CROWD = ((30, 0), (11, -20), (12, 5), (15, 20), (25, -10), (22, 0), (19, 30), (28, 25), (33, -5))


def portrait_panels(model: Predictor) -> list[Panel]:
    """One photograph: clear, half covered, blurred, and blurred until nothing is left."""
    whole: ImageArray = read_image(PHOTOGRAPH)
    found = model.predict(whole)[0]
    clear = found.crop(whole, size=SIDE, margin=0.5)
    scale = SIDE / (2 * max(found.box[2:] - found.box[:2]))
    half = (found.box[2:] - found.box[:2]) * scale / 2
    box = Box(*(SIDE / 2 - half), *(SIDE / 2 + half))
    covered = clear.copy()
    covered[int(SIDE * 0.56) :] = (70, 90, 120)
    blurred, lost = (np.asarray(cv2.GaussianBlur(clear, (0, 0), s), np.uint8) for s in (7, 20))
    return [
        Panel("clear", clear),
        Panel("covered", covered),
        Panel("blurred", blurred),
        Panel("lost", lost, box),
    ]


def drawn(panel: Panel, model: Predictor) -> ImageArray:
    """The panel with every face that was found, and a line of words under it."""
    faces = model.predict(panel.image)
    if not faces and panel.box is not None:
        faces = model.predict(panel.image, boxes=[panel.box])
    image = luvli.draw(panel.image, faces)
    image = np.asarray(cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)
    sure = [face.confidence for face in faces if face.confidence is not None]
    kept = [value for value in sure if value >= REFUSED]
    colour = (0, 0, 0) if kept else (150, 0, 0)
    if len(sure) == 1:
        words = confidence_text(sure[0]) + ("" if kept else ", refused")
    else:
        words = f"{len(kept)} kept, {len(sure) - len(kept)} refused" if sure else "no face"
    return captioned(image, f"{panel.title}: {words}", height=26, colour=colour)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--head", default="procedural", help="an ICT FaceKit model")
    parser.add_argument("--portrait", action="store_true", help="the first picture of README")
    parser.add_argument("--model", default="luvli-68")
    parser.add_argument("--out", type=Path, default=Path("docs/gallery.jpg"))
    options = parser.parse_args()
    model = luvli.load(options.model)
    if options.portrait:
        shown = [drawn(panel, model) for panel in portrait_panels(model)]
    else:
        shown = [drawn(panel, model) for panel in panels(load_head(options.head))]
    write_image(options.out, contact_sheet(shown, 4))


if __name__ == "__main__":
    main()
