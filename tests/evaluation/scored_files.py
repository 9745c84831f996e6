"""What tests of evaluated faces share: changed faces, the expected error, files to score."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from luvli.evaluation.accuracy import nme


def error(result) -> float:
    return float(nme(result.points, result.labels, "box", result.visible).mean())


def expected(few) -> float:
    return float(nme(*few).mean())


def changed(faces, **changes):
    """The same faces with other predictions (None: not predicted) or labels."""
    for part in ("covariance", "visibility"):
        if part in changes and changes[part] is None:
            del changes[part]
            changes[f"{part}_trained"] = False
    names = (
        "points", "covariance", "visibility", "covariance_trained", "visibility_trained", "markup",
        "occlusion", "likelihood",
    )  # fmt: skip
    predictions = {name: changes.pop(name) for name in names if name in changes}
    return replace(faces, faces=replace(faces.faces, **predictions), **changes)


def listed(path: Path, points, names=None) -> Path:
    """A plain JSON list of faces with the names of their images."""
    names = names or [f"{i}.jpg" for i in range(len(points))]
    faces = [{"image": n, "points": p.tolist()} for n, p in zip(names, points, strict=True)]
    path.write_text(json.dumps(faces))
    return path


def mmpose_annotations(points, **about) -> dict:
    """COCO as mmpose writes it for faces; `about`: its copies of HRNet's columns."""
    return {
        "categories": [],
        "images": [{"id": 3 + i, "file_name": f"image{i}.jpg"} for i in range(len(points))],
        "annotations": [
            {"image_id": 3 + i, "id": 3 + i, "category_id": 1, "bbox": [1.0, 1.0, 9.0, 9.0],
             "keypoints": np.column_stack([p, np.ones(len(p))]).ravel().tolist(),
             "box_size": 362.0} | about
            for i, p in enumerate(points)
        ],
    }  # fmt: skip
