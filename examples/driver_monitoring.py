"""Driver monitoring: are the eyes open, is the head turned, and can this frame be trusted at all?

    python examples/driver_monitoring.py clip.mp4

The third answer is the point. Where the alignment probably failed, or the eyes are too uncertain or
hidden by the head, the program says "unknown" instead of guessing.
"""

from __future__ import annotations

import sys

import numpy as np

import luvli
from luvli import FaceLandmarks, InputError

MAX_UNCERTAINTY = 0.04
"""mean standard deviation of the eye points, in widths of the face, above which we do not judge"""
CLOSED = 0.15
"""height of an eye / its width below which it counts as closed"""


def eye_opening(eye: FaceLandmarks) -> float:
    """Height over width of six points around an eye: corner, two above, corner, two below."""
    p = eye.points
    height = np.linalg.norm(p[1] - p[5]) + np.linalg.norm(p[2] - p[4])
    return float(height / (2 * np.linalg.norm(p[0] - p[3])))


def judge(face: FaceLandmarks) -> str:
    """What can be said about one face, or "unknown" and why."""
    eyes = face["eyes"]
    width = float(face.box[2] - face.box[0])
    if face.doubtful:  # the calibrated confidence is below one half
        return f"unknown: the alignment probably failed (confidence {face.confidence:.2f})"
    if face.visibility_trained and not eyes.visible().any():
        return "unknown: no eye can be seen"
    if eyes.uncertainty.mean() > MAX_UNCERTAINTY * width:
        return "unknown: the eyes are too uncertain"
    yaw = face.head_pose().yaw
    if abs(yaw) > 35:
        return f"head turned by {yaw:.0f} degrees"
    seen = [face[name] for name in ("right_eye", "left_eye") if face[name].visible().mean() > 0.5]
    openings = [eye_opening(eye) for eye in seen]
    return "eyes closed" if openings and max(openings) < CLOSED else "attentive"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    model = luvli.load("luvli-68")
    for frame, faces in model.track(sys.argv[1], smooth=True):
        for face in faces:
            print(f"{frame.time:6.2f} s  face {face.track}: {judge(face)}")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:  # one sentence that names the file and what to do
        sys.exit(str(error))
