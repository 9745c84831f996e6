"""What tests of scored files share: the error that is expected, and one layout of several uses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from luvli.evaluation.accuracy import nme


def error(result) -> float:
    return float(nme(result.points, result.labels, "box", result.visible).mean())


def expected(few) -> float:
    return float(nme(*few).mean())


def mmpose_annotations(points) -> dict:
    return {
        "categories": [{"supercategory": "person", "id": 1, "name": "face", "keypoints": [],
                        "skeleton": []}],
        "images": [{"id": 3 + i, "file_name": f"image{i}.jpg", "height": 500, "width": 500}
                   for i in range(len(points))],
        "annotations": [
            {"image_id": 3 + i, "id": 3 + i, "num_keypoints": 68, "bbox": [1.0, 1.0, 9.0, 9.0],
             "keypoints": np.column_stack([p, np.ones(68)]).ravel().tolist(), "iscrowd": 0,
             "area": 81.0, "category_id": 1, "center": [5.0, 5.0], "scale": 1.81,
             "box_size": 362.0}
            for i, p in enumerate(points)
        ],
    }  # fmt: skip


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
