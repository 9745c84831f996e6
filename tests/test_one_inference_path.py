"""Prediction, validation, relabelling, evaluation and export crop and calibrate alike.

The model is in the manner of an imported checkpoint: 98 points, contrast stretch, the published
crop with an enlargement of 1.25, heat-map corners. One more in our own manner.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from luvli.data.boxes import get_enlargement
from luvli.data.dataset import CropDataset
from luvli.data.record import FaceRecord
from luvli.image import affine as affines
from luvli.image.box import Box
from luvli.image.crop import warp_affine
from luvli.markup import get_markup
from luvli.network.backend import Windows
from luvli.network.config import NetworkConfig

torch = pytest.importorskip("torch", reason="needs PyTorch to build networks")

SMALL = {"unets": 1, "channels": 8, "bn_size": 1, "growth": 4, "input_size": 64}
POINTS = 1e-3  # image pixels: float32 networks, run in batches of different sizes
SHARE = 1e-4  # of a covariance


@pytest.fixture(params=["imported", "ours"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An untrained network whose covariances are calibrated by different factors."""
    from luvli.network import build, save_model

    torch.manual_seed(1)
    imported = request.param == "imported"
    markup = "wflw98" if imported else "ibug68"
    count = get_markup(markup).size
    covered = {"occlusion": not imported, "occlusion_trained": not imported}
    config = NetworkConfig(**SMALL, markup=markup, landmarks=count, reference=imported, **covered)
    info = {
        "enlarge": get_enlargement("hrnet"),
        "calibration": {
            "scale": np.linspace(0.5, 3.0, count).tolist(),
            "pixel_variance": np.linspace(0.2, 2.0, count).tolist(),
            "occlusion": 0.7,
            "likelihood": "student-7",
        },
    }
    path = tmp_path / "model.safetensors"
    save_model(path, build(config).eval(), info)
    return path


@pytest.fixture
def records(model: Path, tmp_path: Path) -> list[FaceRecord]:
    """Noisy images of several sizes, the labels somewhere in them, partly outside."""
    from luvli.network import load_model

    config = load_model(model)[0].config
    rng = np.random.default_rng(0)
    shape = get_markup(config.markup).schematic
    made = []
    for i, (side, scale) in enumerate([(150, 40.0), (90, 30.0), (400, 130.0)]):
        coarse = rng.integers(0, 256, (side // 10, side // 10, 3), dtype=np.uint8)
        path = tmp_path / f"{i}.png"
        Image.fromarray(coarse).resize((side, side + 7), Image.Resampling.BICUBIC).save(path)
        points = shape * scale + side / 2 + rng.uniform(-10, 10, 2)
        seen = np.ones(len(points), np.int8)
        made.append(FaceRecord(points, seen, path, markup=config.markup, face_id=str(i)))
    return made


def _close(found: NDArray, expected: NDArray, covariance: NDArray, wanted: NDArray) -> None:
    np.testing.assert_allclose(found, expected, atol=POINTS)
    size = np.abs(wanted).max(axis=(-1, -2), keepdims=True)
    assert (np.abs(covariance - wanted) / size).max() < SHARE


def test_all_ways_crop_and_calibrate_alike(
    model: Path, records: list[FaceRecord], tmp_path: Path
) -> None:
    from luvli.evaluation.evaluate_model import predict_records
    from luvli.network.inference import CropPredictor
    from luvli.prediction.export import export_onnx
    from luvli.prediction.predictor import Predictor, load
    from luvli.training.recipe_data import Source
    from luvli.training.relabel import relabel
    from luvli.training.validate import predict_dataset

    network = CropPredictor.load(model)
    info = network.info
    predictor = Predictor(network)
    boxes = [Box(*record.tight_box) for record in records]
    faces = [
        predictor.predict(str(record.image), [box])[0]
        for record, box in zip(records, boxes, strict=True)
    ]
    # by hand: the square of 1.25 times the longer side, and calibrated covariances
    for face, box in zip(faces, boxes, strict=True):
        side = 1.25 * max(box.width, box.height)
        assert predictor.info.crop_for(box).scale == pytest.approx(64 / side)
        assert info.calibration is not None and info.calibration.scale[-1] == 3.0
        assert face.uncertainty.min() > 0
    plain = CropPredictor(network.network, info.model_copy(update={"calibration": None}))
    for face, record, box in zip(faces, records, boxes, strict=True):
        (bare,) = Predictor(plain).predict(str(record.image), [box])
        wanted = info.calibration.apply(bare.covariance, bare.occlusion)
        _close(face.points, bare.points, face.covariance, wanted)
        assert (face.likelihood, bare.likelihood) == ("student-7", "laplace")
        told = not np.isnan(face.occlusion).all()
        assert told == info.occlusion_trained
        assert np.allclose(wanted, info.calibration.apply(bare.covariance)) != told

    # validation
    crops = CropDataset(
        records, 64, enlarge="hrnet", box_noise="none", convention=info.crop_convention
    )
    watched = predict_dataset(network, crops)
    for found, face in zip(watched.in_image, faces, strict=True):
        _close(found.points, face.points, found.covariance, face.covariance)
    to_crop = np.stack([sample["affine"] for sample in crops])
    np.testing.assert_allclose(
        watched.labelled.points, affines.apply(to_crop, watched.in_image.points)
    )

    # evaluation
    for face, found in zip(faces, predict_records(predictor, records, "tight").faces, strict=True):
        _close(found.points, face.points, found.covariance, face.covariance)

    # export
    export_onnx(model, tmp_path / "model.onnx")
    exported = load(tmp_path / "model.onnx")
    assert exported.info == info
    for record, box, face in zip(records, boxes, faces, strict=True):
        (found,) = exported.predict(str(record.image), [box])
        _close(found.points, face.points, found.covariance, face.covariance)

    # relabelling: the mean of the face and its mirror image, and what they disagree by
    labelled = relabel(
        records, model, Source(set="folder", box_noise="none"), str(tmp_path / "cache")
    )
    flip = get_markup(info.config.markup).flip
    width = 64 if info.crop_convention == "pixel-centre" else 65  # its middle is 32, ours 31.5
    for record, box, face, label in zip(records, boxes, faces, labelled, strict=True):
        crop = predictor.info.crop_for(box)
        pixels = np.asarray(Image.open(str(record.image)))
        to_mirror = affines.compose(affines.mirror(width), crop.affine)
        if crop.convention != "pixel-centre":  # mirrors the pixels of its crop
            view = crop.warp(pixels)[:, ::-1]
        else:
            view = warp_affine(pixels, to_mirror, 64)
        window = replace(Windows.of_crops(1, info), affines=to_mirror[None])
        other = network(view[None], window)
        mirrored = affines.invert(to_mirror)
        there = affines.apply(mirrored, other.points[0])[flip]
        spread = affines.push_covariance(mirrored, other.covariance[0])
        spread = spread[flip]
        off = (face.points - there) / 2
        wanted = (face.covariance + spread) / 2 + off[:, :, None] * off[:, None, :]
        assert label.covariance is not None
        seen = label.visible
        _close(
            label.points[seen],
            ((face.points + there) / 2)[seen],
            label.covariance[seen],
            wanted[seen],
        )
