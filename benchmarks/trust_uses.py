"""What trust is good for: head pose of real faces, aligned crops, a face in a video.

    python benchmarks/trust_uses.py ict_facekit.npz       a rendered clip, smoothed in three ways

Head pose and crops are measured by `trust.py` on its predictions; head pose of rendered faces by
`head_pose.py`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.cli.tables import print_table
from luvli.faces import FaceLandmarks
from luvli.measures.head_pose import head_pose
from luvli.prediction.predictor import load
from luvli.prediction.smooth import smooth_faces
from luvli.progress import track
from luvli.synthetic.render import load_head, render_face
from luvli.trust.fit_tables import in_use
from luvli.trust.measure import Measured
from luvli.trust.triage import choose_threshold, fit_triage

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
SUCCESS = 5.0
FAR = 5.0
"""percent of the crop's side from which a crop counts as misplaced"""
SPLITS = 20
CLIPS, FRAMES, SEED = 4, 40, 993


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("head", nargs="?", help="ICT FaceKit model")
    parser.add_argument("--model", default="luvli-68")
    options = parser.parse_args()
    if options.head is None:
        print("no head given: nothing to measure")
        return
    tracking_table(options.head, options.model)


# --- head pose of real faces -----------------------------------------------------------------


def pose_tables(measured: Measured, columns: dict[str, NDArray[Any]]) -> None:
    """Yaw by MERL-RAV's classes of pose, and how far it is from the pose of the labels."""
    folder = np.array([Path(str(image)).parents[1].name for image in columns["image"]])
    rows, errors = [], []
    for name in ("left", "lefthalf", "frontal", "righthalf", "right"):
        index = np.flatnonzero(measured.plain & (folder == name) & (measured.pose != ""))
        if not len(index):
            continue
        yaw = np.array([measured.faces[i].head_pose().yaw for i in index])
        low, middle, high = np.nanquantile(yaw, (0.1, 0.5, 0.9))
        rows.append([name, str(len(index)), f"{low:.0f}", f"{middle:.0f}", f"{high:.0f}"])
    print_table(["class", "n", "10 %", "median", "90 %"], rows, title="yaw by class, degrees")
    for name in ("frontal", "half-profile", "profile"):
        index = np.flatnonzero(measured.plain & (measured.pose == name))
        away: dict[str, list[Floats]] = {"weighted": [], "visible alike": [], "all alike": []}
        for i in index:
            face, truth = measured.faces[i], np.array(head_pose(measured.truth[i])[:3])
            ways = {
                "weighted": face.head_pose(),
                "visible alike": head_pose(face.points, visibility=face.visibility > 0.5),
                "all alike": head_pose(face.points),
            }
            for way, pose in ways.items():
                away[way].append(np.abs((np.array(pose[:3]) - truth + 180) % 360 - 180))
        for way, values in away.items():
            mean, middle = np.nanmean(values, axis=0), np.nanmedian(values, axis=0)
            errors.append([name, str(len(index)), way, *(f"{v:.1f}" for v in (*mean, *middle))])
    heads = ["class", "n", "landmarks", "yaw", "pitch", "roll", "median yaw", "pitch", "roll"]
    print_table(heads, errors, title="degrees from the pose of the labelled points")


# --- aligned crops ---------------------------------------------------------------------------


def crop_table(measured: Measured, sure: Floats, rate: float = 0.05) -> None:
    """How far aligned crops are misplaced, with and without triage, a fifth of them spoilt."""
    rng = np.random.default_rng(2)
    off = np.array([crop_offset(f, t) for f, t in zip(measured.faces, measured.truth, strict=True)])
    failed = measured.error >= SUCCESS
    names, place = np.unique(measured.photograph, return_inverse=True)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(SPLITS):
        fit = rng.permutation(len(names))[place] < len(names) // 2
        one, other = (
            np.flatnonzero(part)[in_use(measured.take(part), seed=int(rng.integers(2**31)))]
            for part in (fit, ~fit)
        )
        chosen = choose_threshold(fit_triage(sure[one], failed[one], 0.2), rate)
        taken = sure[other] >= chosen.threshold
        for name, part in (("all", taken | True), ("accepted", taken), ("for review", ~taken)):
            if part.any():
                there = off[other][part]
                found.setdefault(name, []).append(
                    (float(part.mean()), float(np.mean(there > FAR)),
                     float(np.quantile(there, 0.95, method="higher")))
                )  # fmt: skip
    rows = []
    for name, values in found.items():
        share, misplaced, high = np.mean(values, axis=0)
        rows.append([name, f"{share:.0%}", f"{misplaced:.1%}", f"{high:.1f}"])
    heads = ["faces", "share", f"off by more than {FAR:g} % of the side", "95 in 100 within (%)"]
    print_table(heads, rows, title=f"aligned crops, triage at {rate:.0%}, 20 % spoilt")


def crop_offset(face: FaceLandmarks, truth: Floats) -> float:
    """How far a crop aligned by the prediction lies from one aligned by the label: mean of its
    corners, in percent of its side; infinite where there is no face."""
    known = np.isfinite(truth).all(axis=1)
    if known.sum() < 3:
        return float("inf")
    found, label = (points[known] @ (1, 1j) for points in (face.points, truth))
    start, end = found.mean(), label.mean()
    # the similarity that takes predicted points to the labelled ones, by least squares
    factor = np.vdot(found - start, label - end) / np.vdot(found - start, found - start)
    low, high = truth[known].min(axis=0), truth[known].max(axis=0)
    side, middle = float((high - low).max()) * 1.3, (low + high) / 2 @ (1, 1j)
    corners = middle + side / 2 * np.array([-1 - 1j, 1 - 1j, 1 + 1j, -1 + 1j])
    return float(np.abs(factor * (corners - start) + end - corners).mean() / side * 100)


# --- a face in a video -----------------------------------------------------------------------


def tracking_table(head_path: str, model: str) -> None:
    """Rendered heads that turn while a bar passes before them: error of visible landmarks."""
    predictor = load(model)
    head = load_head(head_path)
    errors: dict[str, list[Floats]] = {}
    covered: list[Bools] = []
    for clip in track(range(CLIPS), "clips"):
        faces, truth, behind = clip_faces(predictor, head, clip)
        times = [i / 25 for i in range(FRAMES)]
        mean = np.mean([face.covariance for face in faces], axis=(0, 1))
        alike = [
            replace(face, covariance=np.tile(mean, (68, 1, 1)), visibility=np.ones(68))
            for face in faces
        ]
        ways = {
            "frame by frame": faces,
            "smoothed, all landmarks alike": list(smooth_faces(times, alike)),
            "smoothed by covariance and visibility": list(smooth_faces(times, faces)),
        }
        covered.append(behind)
        for name, made in ways.items():
            error = np.linalg.norm(np.stack([face.points for face in made]) - truth, axis=2)
            extent = np.nanmax(truth, axis=1) - np.nanmin(truth, axis=1)
            size = np.sqrt(extent.prod(axis=1))
            errors.setdefault(name, []).append(error / size[:, None] * 100)
    hidden = np.concatenate(covered)
    rows = []
    for name, values in errors.items():
        every = np.concatenate(values)
        shake = np.concatenate([np.abs(np.diff(v, n=2, axis=0)).ravel() for v in values])
        rows.append(
            [name, f"{np.nanmean(every):.2f}", f"{np.nanmean(every[hidden]):.2f}",
             f"{np.nanmean(shake):.2f}"]
        )  # fmt: skip
    heads = ["landmarks", "error (% of the box)", "behind the bar", "shaking"]
    print_table(heads, rows, title=f"{CLIPS} rendered clips of {FRAMES} frames")


def clip_faces(
    predictor: object, head: object, clip: int
) -> tuple[list[FaceLandmarks], Floats, Bools]:
    """Predictions, true points (n, 68, 2; NaN where turned away) and what the bar covers."""
    faces, truth, behind = [], [], []
    for i in range(FRAMES):
        part = i / (FRAMES - 1)
        pose = (-35 + 70 * part, 6 * np.sin(6 * part), 5 * np.cos(5 * part))
        sample = render_face((SEED, clip), head, 256, pose=pose, occluders=False)  # type: ignore[arg-type]
        image, record = sample.image.copy(), sample.record
        points = np.where(record.visible[:, None], record.points, np.nan)
        left = round(20 + 160 * part)
        image[:, left : left + 40] = (90, 70, 60)
        faces.append(predictor.predict(image, [record.tight_box])[0])  # type: ignore[attr-defined]
        truth.append(points)
        behind.append((points[:, 0] >= left) & (points[:, 0] < left + 40))
    return faces, np.stack(truth), np.stack(behind)


if __name__ == "__main__":
    main()
