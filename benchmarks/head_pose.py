"""Head pose of rendered faces, whose pose is known: landmarks weighted by their covariance or not.

    python benchmarks/head_pose.py ict_facekit.npz                      measure the shipped model
    python benchmarks/head_pose.py ict_facekit.npz --fit head68.json    make the mean head's file

The heads that are measured are none of those that the mean head was made of.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from luvli.files import write_text
from luvli.image.box import Box
from luvli.markup import get_markup
from luvli.measures.head_pose import FRONTAL_PITCH, HeadPose, head_pose
from luvli.measures.rotation import rotation_matrix
from luvli.prediction.predictor import load
from luvli.progress import track
from luvli.synthetic.render import label_face, load_head, render_face
from luvli.synthetic.scene.pose import Pose

Floats = NDArray[np.float64]
FITTED, MEASURED = 991, 992  # seeds
MODES = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("head", nargs="?", help="ICT FaceKit model")
    parser.add_argument("--fit", type=Path, help="write the mean head's points here")
    parser.add_argument("--faces", type=int, default=200)
    parser.add_argument("--model", default="luvli-68")
    options = parser.parse_args()
    if options.head is None:
        print("no head given: nothing to measure")
        return
    if options.fit:
        write_text(options.fit, json.dumps(fit(options.head, options.faces), separators=(",", ":")))
    else:
        report(*measure(options.head, options.model, options.faces))


def _of_the_head(pose: HeadPose) -> HeadPose:
    """With the mean head's own zero of pitch, as renderings have it."""
    return pose._replace(pitch=pose.pitch + FRONTAL_PITCH)


def fit(path: str, count: int) -> dict[str, list[float]]:
    """Mean, modes and rest of random heads, mirror-symmetric, in their own frame."""
    head = load_head(path)
    pivot = head.pivot
    own: list[Floats] = []
    slid: list[Floats] = []
    for i in track(range(count), "heads"):
        back = _pose(i).matrix
        bone, outline = (
            label_face((FITTED, i), head, 256, jaw, _pose(i)) for jaw in ("3d", "outline")
        )
        place = (bone.points_3d - pivot) @ back
        moved = (outline.points_3d - pivot) @ back - place
        moved[outline.self_occluded] = np.nan
        own.append(place)
        slid.append(moved)
    flip = get_markup("ibug68").flip
    places = np.stack(own)
    places = np.concatenate([places, places[:, flip] * (-1, 1, 1)])
    places = places - places.mean(axis=1, keepdims=True)
    size = np.sqrt((places**2).sum(axis=(1, 2)))
    places *= (size.mean() / size)[:, None, None]
    mean = places.mean(axis=0)
    differences = (places - mean).reshape(len(places), -1)
    _, spread, ways = np.linalg.svd(differences, full_matrices=False)
    deviation = spread / np.sqrt(len(places) - 1)
    left = differences - differences @ ways[:MODES].T @ ways[:MODES]
    outline_spread = np.sqrt(np.nanmean(np.stack(slid) ** 2, axis=(0, 2)) * 1.5)
    outline_spread = (outline_spread + outline_spread[flip]) / 2
    rest = np.hypot(np.sqrt((left.reshape(-1, 68, 3) ** 2).mean(axis=(0, 2))), outline_spread)
    modes = (ways[:MODES] * deviation[:MODES, None]).reshape(MODES, 68, 3)
    return {
        name: values.round(3).tolist()
        for name, values in (("mean", mean), ("modes", modes), ("rest", rest))
    }


def _pose(number: int) -> Pose:
    rng = np.random.default_rng([FITTED, number])
    return Pose(float(rng.uniform(-75, 75)), float(rng.normal(0, 12)), float(rng.normal(0, 8)))


def measure(path: str, model: str, count: int) -> tuple[Floats, dict[str, Floats], Floats]:
    """(n, 3) true angles; errors (n, 4) of each way, the last the angle of the whole turn; and
    predicted deviations (n, 3)."""
    predictor = load(model)
    head = load_head(path)
    truth, deviation = [], []
    errors: dict[str, list[Floats]] = {"weighted": [], "visible alike": [], "all alike": []}
    for i in track(range(count), "faces"):
        sample = render_face((MEASURED, i), head, 256, pose="mixed")
        boxes = predictor.detect(sample.image)
        face = predictor.predict(sample.image, boxes[:1] or [Box(*sample.record.tight_box)])[0]
        true = np.array(sample.pose)
        if abs(true[0]) > 90:
            continue  # the face itself is turned away
        seen = face.visibility > 0.5
        poses = {
            "weighted": _of_the_head(face.head_pose()),
            "visible alike": head_pose(face.points, visibility=seen),
            "all alike": head_pose(face.points),
        }
        truth.append(true)
        deviation.append(poses["weighted"].deviation)
        for name, pose in poses.items():
            between = rotation_matrix(*pose[:3]).T @ sample.pose.matrix
            angle = np.degrees(np.arccos(np.clip((np.trace(between) - 1) / 2, -1, 1)))
            errors[name].append(np.append((np.array(pose[:3]) - true + 180) % 360 - 180, angle))
    return np.array(truth), {n: np.array(e) for n, e in errors.items()}, np.array(deviation)


def report(truth: Floats, errors: dict[str, Floats], deviation: Floats) -> None:
    """Mean and median absolute errors by size of the yaw."""
    size = np.abs(truth[:, 0])
    for title, low, high in (
        ("all", 0, 90), ("up to 26 degrees", 0, 26), ("26 to 48", 26, 48), ("48 to 90", 48, 90)
    ):  # fmt: skip
        chosen = (size >= low) & (size < high)
        table = Table("way", "yaw", "pitch", "roll", "whole turn", "medians", title=(
            f"{title}: {chosen.sum()} faces, mean absolute error in degrees"
        ))  # fmt: skip
        for name, error in errors.items():
            part = np.abs(error[chosen])
            middle = ", ".join(f"{value:.1f}" for value in np.nanmedian(part, axis=0))
            table.add_row(name, *(f"{value:.1f}" for value in np.nanmean(part, axis=0)), middle)
        Console().print(table)
    inside = [np.nanmean(np.abs(errors["weighted"][:, :3]) < k * deviation, axis=0) for k in (1, 2)]
    for k, share in zip((1, 2), inside, strict=True):
        print(f"within {k} predicted deviations: " + ", ".join(f"{value:.0%}" for value in share))


if __name__ == "__main__":
    main()
