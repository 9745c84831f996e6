"""What the shipped model promises, measured on faces that it never learnt from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

from luvli.calibration.covariance import coverage_by_level
from luvli.data.record import FaceRecord
from luvli.errors import BoxWarning
from luvli.evaluation import LabelledFaces, nme
from luvli.evaluation.evaluate_model import predict_records
from luvli.models import FOLDER, model_names, read_card
from luvli.network import load_model
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.smooth import smooth_tracks
from luvli.prediction.tracking import Tracker, track_frames
from luvli.prediction.video import Frame
from luvli.training.ingredients import ingredients
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe, read_recipe
from luvli.training.sources import load_source

ROOT = Path(__file__).parents[2]


def own_recipe() -> Recipe:
    """The recipe that the shipped model was trained with, as its file tells it."""
    _, info = load_model(FOLDER / "luvli-68.safetensors")
    return make_recipe(info["recipe"], "the shipped model")


SAMPLE = 150
"""of MERL-RAV so many faces are enough here; the card has all of them"""


@pytest.fixture(scope="module")
def reported(shared: Path) -> dict[str, list[FaceRecord]]:
    """Held-out photographs of each source that nothing was chosen by, labels as published."""
    recipe = own_recipe()
    data = recipe.data.model_copy(update={"root": str(shared / "data")})
    found = {}
    photographs = {n: s for n, s in data.sources.items() if s.set and not s.relabel}
    for name, source in photographs.items():
        plain = source.model_copy(update={"offset": (0.0, 0.0), "boxes": "labels"})
        held_out = load_source(name, plain, data).held_out
        ordered = sorted(held_out, key=lambda r: hashlib.sha256(r.face_id.encode()).hexdigest())
        found[name] = ordered[1::2]
    return found


@pytest.fixture(scope="module")
def lfpw_faces(shipped: Predictor, reported: dict[str, list[FaceRecord]]) -> LabelledFaces:
    records = reported["lfpw"]
    return predict_records(shipped, records, "detector", refine_boxes=True)


@pytest.fixture(scope="module")
def merl_faces(shipped: Predictor, reported: dict[str, list[FaceRecord]]) -> LabelledFaces:
    records = reported["merl"][:SAMPLE]
    return predict_records(shipped, records, "detector", refine_boxes=True).with_tight_boxes()


def card_row(table: str, name: str) -> list[str]:
    (found,) = [t for t in read_card("luvli-68").tables if t.title.startswith(table)]
    (row,) = [row for row in found.rows if row[0] == name]
    return row


@pytest.mark.slow
def test_photographs_it_never_saw_are_aligned_as_the_card_says(
    lfpw_faces: LabelledFaces, merl_faces: LabelledFaces
) -> None:
    errors = nme(lfpw_faces.points, lfpw_faces.labels, "interocular", lfpw_faces.visible)
    row = card_row("Accuracy", "lfpw")
    assert int(row[1]) == len(errors) and row[2] == "interocular"
    measured = np.where(np.isfinite(errors), errors, 100.0).mean()
    assert measured == pytest.approx(float(row[3]), abs=0.02)
    assert measured < 3.6
    boxes = nme(merl_faces.points, merl_faces.labels, "box", merl_faces.visible, "visible")
    assert np.median(boxes[np.isfinite(boxes)]) < 2.8


@pytest.mark.slow
def test_ellipses_hold_as_many_labels_as_they_say(
    shipped: Predictor,
    reported: dict[str, list[FaceRecord]],
    lfpw_faces: LabelledFaces,
    merl_faces: LabelledFaces,
) -> None:
    """On average over the sources no fewer than they promise, less four points, and of 95 % no more
    than four points above.

    An ellipse says where the annotators of one more data set would place the point: beside the
    errors within a data set it holds the variance between data sets. One source alone, whose
    offset the network may know, can therefore hold more; by how much says the card, within five
    points. Models of before 2.7 count that variance twice and hold up to 11 points more at 50 %.
    """
    faces = {"lfpw": lfpw_faces, "merl": merl_faces}
    for name, records in reported.items():
        if name not in faces and records and records[0].visible.any():
            faces[name] = predict_records(shipped, records[:40], "detector", refine_boxes=True)
    held = {}
    for name, labelled in faces.items():
        found = labelled[~labelled.failed]
        assert found.likelihood == shipped.info.likelihood
        held[name] = list(coverage_by_level(found.residuals.radii, found.likelihood).values())
    average = np.mean(list(held.values()), axis=0)
    assert (average > np.array([0.5, 0.8, 0.95]) - 0.04).all(), average
    assert average[2] == pytest.approx(0.95, abs=0.04)
    for name in ("merl", "lfpw"):
        promised = [float(cell.split()[0]) / 100 for cell in card_row("Calibration", name)[1:]]
        np.testing.assert_allclose(held[name], promised, atol=0.05)


@pytest.mark.parametrize("name", model_names())
def test_what_cannot_be_aligned_is_not_believed(name: str, astronaut: NDArray[np.uint8]) -> None:
    """A face on its head may be aligned, which later models can; then it may be believed."""
    predictor = load(name, threads=1)
    (face,) = predictor.predict(astronaut)
    assert face.confidence is not None and face.confidence > 0.5
    side = (face.box[2:] - face.box[:2]).max()
    beside = face.box + side * np.array([0.6, 0.3, 0.6, 0.3])
    images = [
        (cv2.GaussianBlur(astronaut, (0, 0), side / 6), [face.box]),
        (astronaut, [beside]),
        upside_down(astronaut, face.box),
    ]
    with pytest.warns(BoxWarning, match="hardly holds a face"):
        blurred, missed, turned = (predictor.predict(*image)[0] for image in images)
    truth = np.array(astronaut.shape[1::-1]) - 1 - face.points
    error = np.linalg.norm(turned.points - truth, axis=1).mean() / side
    failed = [blurred, missed, turned] if error > 0.05 else [blurred, missed]
    assert all(each.confidence is not None and each.confidence < 0.1 for each in failed)
    if predictor.info.config.failure_head:
        # a logit means something beside others of the same model; the confidence is calibrated
        assert face.failure_logit is not None and face.failure_logit < -2
        least = face.failure_logit + 10
        assert all(each.failure_logit is not None and each.failure_logit > least for each in failed)


def upside_down(image: NDArray[np.uint8], box: NDArray[np.float64]) -> Any:
    """An image turned by half, and the box of its face."""
    height, width = image.shape[:2]
    last = np.array([width - 1, height - 1] * 2, dtype=np.float64)
    return np.ascontiguousarray(image[::-1, ::-1]), [(last - box)[[2, 3, 0, 1]]]


@pytest.mark.slow
def test_visibility_of_real_faces(merl_faces: LabelledFaces) -> None:
    assert merl_faces.visibility is not None
    found = ~merl_faces.failed
    called = merl_faces.visibility[found] > 0.5
    classes = merl_faces.label_visibility[found]
    assert (~called[classes == 0]).mean() > 0.85
    assert called[classes > 0].mean() > 0.98


@pytest.mark.slow
def test_profiles_gain_by_box_refinement(
    shipped: Predictor, reported: dict[str, list[FaceRecord]]
) -> None:
    """A detector's box is rough where a face is turned away."""
    profiles = [r for r in reported["merl"] if r.attributes["pose"] in ("left", "right")][:SAMPLE]
    refined, once = (
        predict_records(shipped, profiles, "detector", refine_boxes=refine)
        .with_tight_boxes()
        .nme("box", "visible")
        for refine in (True, False)
    )
    both = np.isfinite(refined) & np.isfinite(once)
    assert both.sum() > 0.9 * len(profiles) > 90
    again = both & (np.abs(refined - once) > 0.05)  # those whose box was rough
    assert 0.03 < again.mean() < 0.3
    assert refined[again].mean() < 0.95 * once[again].mean()


def test_model_files_tell_their_recipe_and_no_place_of_a_machine(shipped: Predictor) -> None:
    recipe = own_recipe()
    assert recipe.data.root == "DATA" and recipe.data.cache is None
    assert recipe.init is None or Path(recipe.init).name == recipe.init
    card = read_card("luvli-68")
    (named,) = [word for word in re.split(r"[,;\s]+", card.recipe) if word.endswith(".yaml")]
    ours = read_recipe(ROOT / named)
    assert ours.name == card.name
    same = list(recipe.stages) == list(ours.stages)
    assert same == (ours.version == card.version)  # a recipe makes its own version, no other


def test_open_weights_say_so_and_every_source_of_theirs_is_open(
    astronaut: NDArray[np.uint8],
) -> None:
    model = load("luvli-68-open", licence="open")
    assert model.info.licence.startswith("Apache-2.0") and "CC BY 4.0" in model.info.licence
    assert model.info.detector == "yunet-open"
    assert read_card("luvli-68-open").licence.startswith("Apache-2.0")
    _, info = load_model(FOLDER / "luvli-68-open.safetensors")
    recipe = make_recipe(info["recipe"], "the open model")
    found = ingredients(recipe)
    assert found and all(item.open for item in found)
    (face,) = model.predict(astronaut)
    (other,) = load("luvli-68").predict(astronaut)
    box = np.sqrt(np.prod(other.box[2:] - other.box[:2]))
    assert np.linalg.norm(face.points - other.points, axis=1).mean() < 0.06 * box


def panned(photograph: NDArray[np.uint8], frames: int) -> Iterator[tuple[Frame, NDArray[Any]]]:
    """A noisy camera that wanders over the photograph, and its way from image to frame."""
    import cv2

    rng = np.random.default_rng(3)
    for i in range(frames):
        zoom, turn = 1 + 0.15 * np.sin(i / 9), np.radians(8 * np.sin(i / 13))
        way = zoom * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        middle = np.array([224 + 15 * np.sin(i / 7), 120 + 12 * np.cos(i / 11)])
        affine = np.c_[way, (160, 120) - way @ middle]
        image = cv2.warpAffine(photograph, affine, (320, 240), borderMode=cv2.BORDER_REPLICATE)
        noisy = image + rng.normal(0, 6, image.shape)
        yield Frame(i, i / 30, np.clip(noisy, 0, 255).astype(np.uint8)), affine


def test_a_real_face_is_followed_through_a_video(
    shipped: Predictor, astronaut: NDArray[np.uint8]
) -> None:
    (still,) = shipped.predict(astronaut)
    frames, affines = zip(*panned(astronaut, 60), strict=True)
    size = np.ptp(still.points, axis=0).max()
    jitter = {}
    for smooth in (False, True):
        found = track_frames(frames, Tracker(shipped))
        results = list(smooth_tracks(found) if smooth else found)
        assert [len(result.faces) for result in results] == [1] * 60
        back = [
            (result.faces[0].points - affine[:, 2]) @ np.linalg.inv(affine[:, :2]).T
            for result, affine in zip(results, affines, strict=True)
        ]
        assert np.linalg.norm(np.mean(back, axis=0) - still.points, axis=1).mean() < 0.03 * size
        jitter[smooth] = np.diff(back, 2, axis=0).std()
    assert jitter[True] < 0.5 * jitter[False]
