"""A rough box is corrected once; a given one is taken as it is."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from tests.prediction.conftest import SHAPE, SIZE, DiscBackend, DiscDetector, disc_image

from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo
from luvli.prediction import crops
from luvli.prediction.predictor import Predictor

ROOT = Path(__file__).parents[2]
SEEN = np.full(68, 0.95)


def shape_in(box: Box) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The schematic face, filling a box."""
    half = np.array([box.width, box.height]) / 2
    return np.array(box.centre) + SHAPE * half


def test_which_boxes_are_refined() -> None:
    box = Box(100, 100, 200, 220)
    beside = Box(116, 100, 216, 220)
    assert box.iou(beside) < crops.MIN_IOU
    profile = np.where(shape_in(box)[:, 0] < 140, 0.1, 0.9)
    seen = Box.around(shape_in(box)[profile > 0.5])
    assert box.iou(seen) < crops.MIN_IOU
    hidden_ear = np.where(np.arange(68) < 2, 0.1, 0.9)
    cases = [
        (shape_in(box), SEEN, None),
        (shape_in(box), profile, seen),  # the box of what can be seen
        (shape_in(box), hidden_ear, None),
        (shape_in(beside), SEEN, beside),
        # nothing that could be a face
        (np.full((68, 2), 150.0), SEEN, None),
        (shape_in(Box(0, 0, 1000, 1000)), SEEN, None),
        (np.full((68, 2), np.nan), SEEN, None),
        (shape_in(beside), np.zeros(68), None),
    ]
    boxes, again = crops.refined_boxes(
        np.tile(box.array, (len(cases), 1)),
        np.stack([points for points, _, _ in cases]),
        np.stack([visibility for _, visibility, _ in cases]),
    )
    assert again.tolist() == [wanted is not None for _, _, wanted in cases]
    for edges, (_, _, wanted) in zip(boxes, cases, strict=True):
        assert wanted is None or edges.tolist() == list(wanted)


def test_the_second_window_is_what_the_image_would_show(rng: np.random.Generator) -> None:
    image = cv2.resize(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8), (480, 360))
    image = cv2.GaussianBlur(image, (0, 0), 6)
    first = Crop.from_box(Box(150, 80, 290, 240), 128, 1.3)
    second = Crop.from_box(Box(160, 90, 296, 240), 128, 1.3)
    pixels = first.wider(16).warp(image)
    assert pixels.shape == (160, 160, 3)
    middle = crops.inner(pixels, 128)
    assert np.abs(middle.astype(int) - first.warp(image)).max() <= 2
    cut = crops.crop_within(pixels, first, second)
    assert np.abs(cut.astype(int) - second.warp(image)).mean() < 1.0
    assert np.abs(cut.astype(int) - first.warp(image)).mean() > 5.0  # and not the first one


class RoughDetector(DiscDetector):
    """A detector whose boxes lie beside the discs, as YuNet's do beside profiles."""

    def __call__(self, image: np.ndarray, name: str = "") -> list[Box]:
        return [
            Box(box.x0 + 26, box.y0 + 22, box.x1 + 26, box.y1 + 22, box.score, detected=True)
            for box in super().__call__(image, name)
        ]


def test_a_rough_box_is_corrected_and_a_given_one_is_not() -> None:
    image = disc_image([(150, 120, 40)])
    truth = np.array([150, 120]) + 40 * SHAPE
    backend = DiscBackend()
    predictor = Predictor(backend, RoughDetector())
    [face] = predictor.predict(image)
    assert backend.calls == [1, 1]
    box = predictor.detect(image)[0]
    assert tuple(face.box) == tuple(box) and face.score == box.score  # the detector's own is told
    [given] = predictor.predict(image, [list(box)])
    assert backend.calls == [1, 1, 1]
    wrong = [np.abs(one.points - truth).max() for one in (given, face)]
    assert wrong[1] < 0.5 * wrong[0]  # the disc leaves the first window, not the second
    [again] = predictor.predict(image, [box])  # a detected box is one wherever it comes from
    np.testing.assert_array_equal(again.points, face.points)


def test_published_checkpoints_are_cropped_once() -> None:
    config = NetworkConfig(unets=1, input_size=SIZE, landmarks=68)
    ours = ModelInfo(name="ours", config=config)
    assert crops.margin(ours) == SIZE // 8
    stretched = config.model_copy(update={"crop": "published"})
    assert crops.margin(ModelInfo(name="theirs", config=stretched)) == 0
    blind = config.model_copy(update={"visibility_trained": False})
    assert crops.margin(ModelInfo(name="blind", config=blind)) == 0
