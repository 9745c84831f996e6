"""`calibrate_model`: a model file in, the same model with calibrated covariances and trust out.

The steps, in the order of time: run the model over the held-out faces once, then fit, on what it
predicted, the visibility, the scale of the covariances with the error distribution and the label
convention, and the failure model; conformalize the radii; count for the triage; fit the measures.
The faces are split by photograph: radii and triage use faces that the fits before have not seen, so
that their guarantees hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools
from luvli.calibration.covariance import fit_convention, fit_covariance, in_one_convention
from luvli.calibration.fit_failure_model import fit_failure_model
from luvli.calibration.fit_measures import fit_measures
from luvli.calibration.guarantees import conformalize, fit_triage
from luvli.calibration.measure import (
    calibrated,
    face_errors,
    is_plain,
    label_radii,
    measure_faces,
    with_calibration,
)
from luvli.calibration.model_file import SUFFIXES, ModelFile
from luvli.calibration.photographs import (
    pack_names,
    photograph_name,
    refuse_training_faces,
    training_photographs,
)
from luvli.calibration.report import (
    advice,
    confidence_table,
    coverage_table,
    measures_table,
    sample_in_use,
    triage_table,
)
from luvli.calibration.shift import fit_reference
from luvli.calibration.visibility import LogitMap, fit_visibility
from luvli.data.record import FaceRecord
from luvli.errors import InputError, require
from luvli.evaluation.evaluate_model import predict_records
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.table import Table
from luvli.faces import Faces
from luvli.files import PathLike
from luvli.measures.calibration import MeasureCalibration
from luvli.models import find_model
from luvli.network.calibration import Calibration
from luvli.progress import Track
from luvli.trust.features import feature_table, landmark_groups, predicted_poses
from luvli.trust.trust import Trust

FIT_SHARE = 0.5
"""share of the photographs that covariances and failure model are fitted on"""
MIN_FACES = 300
"""labelled faces that a calibration takes in all"""
MEASURED_MARKUP = "ibug68"
"""the point set that measures are defined on"""
MAX_PROFILES = 0.05
"""share of profiles above which labels without visibility are refused"""


class Fitted(NamedTuple):
    """What `luvli calibrate` writes into a model, and what it reports."""

    calibration: Calibration
    visibility: LogitMap
    trust: Trust
    measures: MeasureCalibration | None
    """None for point sets that have no measures"""
    tables: list[Table]
    """ellipses, confidence, triage and, where there are any, measures"""
    advice: list[str]
    """how many more faces are needed for which guarantee"""


def calibrate_model(
    model: PathLike,
    records: Sequence[FaceRecord],
    out: PathLike,
    *,
    training: Sequence[FaceRecord] = (),
    convention_from: Sequence[FaceRecord] = (),
    closed_eyes: Sequence[FaceRecord] = (),
    success: float = 5.0,
    corrupted_per_face: int = 3,
    seed: int = 0,
    name: str | None = None,
    version: str | None = None,
    data: Sequence[str] = (),
    progress: Track = iter,
) -> Fitted:
    """Calibrate a model on held-out faces and write it anew.

    Args:
        model: a shipped model's name, or a `.onnx` or `.safetensors` file.
        records: labelled faces that the model was not trained on.
        out: the file to write, of either kind.
        training: the faces that the model was trained on; `records` among them are refused.
        convention_from: plain faces of further sources for the variance of the label convention.
        closed_eyes: faces with boxes whose eyes are shut, with or without landmarks.
        success: an alignment succeeded below this mean error, percent of the box.
        name, version: of the new model; by default the file's name, and VERSION+calibrated.

    Nothing is written unless everything could be fitted.
    """
    target = Path(out)
    check_possible(target)
    loaded = ModelFile.read(_source_file(model, target))
    known = training_photographs(loaded.info)
    if training:
        known = pack_names(map(photograph_name, training))
    refuse_training_faces(records, known)
    bare = loaded.with_info(calibration=None, trust=None, measures=None)
    further, shut = None, None
    with bare.predictor() as predictor:
        measured = measure_faces(predictor, records, corrupted_per_face, seed, progress)
        if convention_from:
            further = measure_faces(predictor, convention_from, 0, progress=progress)
        if closed_eyes:
            eyes = predict_records(predictor, closed_eyes, refine_boxes=True, progress=progress)
            shut = eyes.faces
    fitted = fit_trust(measured, success, further, shut, loaded.info.measures)
    trust = fitted.trust.model_copy(update={"training_photographs": known, "data": list(data)})
    made = bare.with_info(
        name=name or target.stem,
        version=version or f"{loaded.info.version}+calibrated",
        calibration=fitted.calibration,
        trust=trust,
        measures=fitted.measures,
    )
    replace(made, weights=fitted.visibility.apply_to_weights(bare.weights)).write(target)
    return fitted._replace(trust=trust)


def check_possible(target: Path) -> None:
    """Refuse what would fail at the end, before any face is detected."""
    if target.suffix not in SUFFIXES:
        raise InputError(f"{target} must end in {' or '.join(SUFFIXES)}: choose another name.")
    for package in ("onnx", "safetensors", "sklearn", "scipy"):
        require(package, "calibrate")


def _source_file(model: PathLike, target: Path) -> Path:
    """The model's file; of a shipped model the `.safetensors` where one is to be written, because
    an `.onnx` file lacks what only training needs."""
    by_name = Path(model).suffix not in SUFFIXES
    return find_model(model, "torch" if target.suffix == ".safetensors" and by_name else None)


def fit_trust(
    measured: LabelledFaces,
    success: float = 5.0,
    further: LabelledFaces | None = None,
    closed_eyes: Faces | None = None,
    known: MeasureCalibration | None = None,
) -> Fitted:
    """Fit everything on predictions with uncalibrated covariances (`measure_faces`); `further` are
    plain faces of sources that only the label convention is estimated from. Closed eyes are as
    `known` where `closed_eyes` are too few to fit them."""
    check_faces(measured)
    plain, first = is_plain(measured), in_first_part(measured.groups["photograph"])
    visibility = fit_visibility(measured[plain])
    measured = measured.with_predictions(visibility=visibility(measured.faces.visibility))
    calibration = fit_calibration(measured[first & plain], further)
    measured = with_calibration(measured, calibration)
    failure_model = fit_failure_model(measured[first], success)
    fitted_on, held, held_plain = measured[first], measured[~first], measured[~first & plain]
    features = feature_table(held.faces, failure_model.shape)
    confidence, _ = failure_model.of_table(features)
    used = sample_in_use(held)
    triage = fit_triage(
        confidence[used],
        face_errors(held)[used] >= success,
        float(np.mean(~is_plain(held)[used])),
        failure_model(fitted_on.faces[sample_in_use(fitted_on)])[0],
    )
    groups = landmark_groups(measured.faces.markup, measured.landmarks)
    radii, poses = label_radii(held_plain), predicted_poses(held_plain.faces)
    trust = Trust(
        failure_model=failure_model,
        conformal=conformalize(radii, groups, poses),
        triage=triage,
        reference=fit_reference(features[is_plain(held)]),
    )
    tables = [
        coverage_table(calibration),
        confidence_table(held, confidence, success),
        triage_table(triage),
    ]
    measures = None
    if measured.faces.markup == MEASURED_MARKUP:
        shut = None if closed_eyes is None else calibrated(closed_eyes, calibration)
        measures = fit_measures(measured[plain], shut, known)
        of_first = fit_measures(measured[first & plain], None if shut is None else shut[::2])
        tables.append(measures_table(held_plain, of_first, None if shut is None else shut[1::2]))
    return Fitted(calibration, visibility, trust, measures, tables, advice(trust))


def fit_calibration(plain: LabelledFaces, further: LabelledFaces | None = None) -> Calibration:
    """Scale, error distribution, pixel variance and label convention of the covariances."""
    calibration = fit_covariance(in_one_convention(plain))
    every = plain if further is None else LabelledFaces.concatenate([plain, further])
    variance = np.round(fit_convention(every), 9)
    found = variance.tolist() if variance.any() else []
    return calibration.model_copy(update={"convention_variance": found})


def check_faces(measured: LabelledFaces) -> None:
    """Refuse faces that no guarantee can be made of."""
    plain = measured[is_plain(measured)]
    if len(plain) < MIN_FACES:
        raise InputError(
            f"calibration takes at least {MIN_FACES} labelled faces, got {len(plain)}: give "
            f"{MIN_FACES - len(plain)} more, of photographs that the model was not trained on."
        )
    profile = predicted_poses(plain.faces) == "profile"
    no_hidden = plain.faces.visibility_trained and plain.visible.all()
    if no_hidden and profile.mean() > MAX_PROFILES:
        raise InputError(
            f"the labels have no visibility, but {int(profile.sum())} of {len(plain)} faces are "
            "profiles, which hide half of them: give a set with visibility labels, "
            "MERL-RAV for instance, or faces that look ahead."
        )


def in_first_part(photographs: NDArray[np.str_], share: float = FIT_SHARE) -> Bools:
    """(n,) which photographs belong to the first part, by their hashed names."""
    names, place = np.unique(photographs, return_inverse=True)
    digests = [hashlib.sha256(f"fit {name}".encode()).hexdigest()[:13] for name in names.tolist()]
    values = np.array([int(digest, 16) / 16**13 for digest in digests])
    return np.asarray(values[place] < share)
