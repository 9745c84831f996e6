"""Curate a folder of photographs: keep sharp, frontal, well-aligned faces, and say why not others.

python examples/curate_dataset.py photos/ kept.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

import luvli
from luvli import FaceLandmarks, InputError

MAX_UNCERTAINTY = 3.0
"""percent of the face's box"""


def reason_against(face: FaceLandmarks) -> str:
    """Why a face is not kept; "" if it is."""
    side = float(np.sqrt(np.prod(face.box[2:] - face.box[:2])))
    unsure = 100 * float(face.uncertainty.mean()) / side
    if side < 60:
        return f"small: {side:.0f} pixels"
    if face.doubtful:
        return f"alignment probably failed: confidence {face.confidence:.2f}"
    if unsure > MAX_UNCERTAINTY:
        return f"uncertain: {unsure:.1f} % of the box"
    if face.visibility_trained and (~face.visible()).sum() > 5:
        return f"turned away: {(~face.visible()).sum()} landmarks hidden"
    return ""


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder: name the one that holds the photographs.")
    model = luvli.load("luvli-68")
    with target.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["image", "face", "kept", "reason"])
        for path in sorted(folder.rglob("*.jpg")):
            try:
                faces = model.predict(path)
            except InputError as error:
                writer.writerow([path, "", False, error])
                continue
            for number, face in enumerate(faces):
                why = reason_against(face)
                writer.writerow([path, number, not why, why])


if __name__ == "__main__":
    main()
