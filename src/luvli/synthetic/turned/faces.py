"""`TurnedFaces`: an indexable, reproducible set of photographs turned out of plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np

from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.image.read import ImageArray, read_image
from luvli.synthetic.arrays import Bools, Doubles
from luvli.synthetic.fit import FittedHead, fit_photograph
from luvli.synthetic.photographs import photographed_faces, skin_points
from luvli.synthetic.render import load_head
from luvli.synthetic.turned.drape import turn_face

MAX_ERROR, MAX_YAW = 0.035, 45.0
"""of a fit: mean distance to the labels in sides of the face, and degrees"""
MAX_FACE = 150.0
"""pixels: larger faces are shrunk before they are turned"""
MIN_TURN, PROFILE = 15.0, 90.0
"""degrees by which a face is turned at least, and to which at most"""
PITCH = 6.0
"""standard deviation of the nod that comes with the turn, in degrees"""
_TRIES = 40


class TurnedSample(NamedTuple):
    """A turned face and its label."""

    image: ImageArray
    record: FaceRecord


@dataclass(frozen=True)
class TurnedFaces:
    """`count` faces; face i depends on the arguments and i alone, in whatever process or order."""

    head: str
    """the path of an ICT FaceKit model"""
    photographs: str
    """photographs with 68 points: a folder with `.pts` files, or a file that names faces
    (`luvli.synthetic.photographs`)"""
    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.head == "procedural":
            raise InputError(
                "the procedural head is nobody: give the path of an ICT FaceKit model as head."
            )

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> TurnedSample:
        faces = photographed_faces(self.photographs)
        order = np.random.default_rng([self.seed, index // len(faces)]).permutation(len(faces))
        rng = np.random.default_rng([self.seed, index, 1])
        choice = int(order[index % len(faces)])
        for _ in range(_TRIES):
            points = skin_points(faces[choice])
            turned = None if points is None else self._turned(faces[choice], points, rng)
            if turned is not None:
                return turned
            choice = int(rng.integers(len(faces)))
        raise InputError(
            f"{self.photographs} has hardly any face that the head can be fitted to: give "
            "photographs with 68 points that are not in profile."
        )

    def _turned(
        self, photograph: FaceRecord, points: Doubles, rng: np.random.Generator
    ) -> TurnedSample | None:
        """One photograph at a random pose; None where it is no good."""
        head = load_head(self.head)
        scale = min(1.0, MAX_FACE / float(np.nanmax(np.ptp(points, axis=0))))
        points = (points + 0.5) * scale - 0.5
        fit = fit_photograph(head, points)
        if fit is None or fit.error > MAX_ERROR or abs(fit.yaw) > MAX_YAW:
            return None
        image = read_image(photograph.image or "")
        if scale < 1:
            small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
            image = np.asarray(small, np.uint8)
        externally: Bools = photograph.visibility == Visibility.EXTERNALLY_OCCLUDED
        yaw = target_yaw(fit, rng) - fit.yaw
        face = turn_face(head, fit, image, points, externally, yaw, float(rng.normal(0, PITCH)))
        shown = face.points[face.visibility > Visibility.SELF_OCCLUDED]
        if (shown < 0).any() or (shown > np.array(image.shape[1::-1]) - 1).any():
            return None  # the photograph is cut too close
        record = FaceRecord(
            points=face.points,
            visibility=face.visibility,
            dataset="turned",
            face_id=photograph.name,
            attributes={"yaw": round(face.yaw, 1)},
        )
        return TurnedSample(face.image, record)


def target_yaw(fit: FittedHead, rng: np.random.Generator) -> float:
    """Degrees: farther to the side that the face looks to, where the photograph shows the cheek."""
    side = float(np.sign(fit.yaw)) if abs(fit.yaw) > 8 else float(rng.choice([-1, 1]))
    return side * float(rng.uniform(min(abs(fit.yaw) + MIN_TURN, 60.0), PROFILE))
