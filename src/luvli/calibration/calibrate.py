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

from luvli.arrays import Bools, Floats
from luvli.calibration.conformalize import conformalize
from luvli.calibration.covariance import fit_convention, fit_covariance, landmark_groups
from luvli.calibration.fit_failure_model import fit_failure_model
from luvli.calibration.fit_measures import fit_eyes_closed, fit_measures, labelled_eyes
from luvli.calibration.fit_triage import fit_triage
from luvli.calibration.measure import MeasuredFaces, calibrated, measure_faces, predict_faces
from luvli.calibration.model_file import SUFFIXES, ModelFile
from luvli.calibration.photographs import (
    TrainingPhotographs,
    photograph_name,
    refuse_training_faces,
)
from luvli.calibration.report import (
    ReportTable,
    advice,
    measures_table,
    report_tables,
    sample_in_use,
)
from luvli.calibration.shift import fit_reference
from luvli.calibration.visibility import LogitMap, fit_visibility
from luvli.data.record import FaceRecord
from luvli.errors import InputError, require
from luvli.faces import Faces
from luvli.files import PathLike
from luvli.measures.calibration import MeasureCalibration
from luvli.models import find_model
from luvli.network.calibration import Calibration
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo
from luvli.progress import Track
from luvli.trust.features import feature_table, predicted_poses
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
    tables: list[ReportTable]
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
    _check_possible(target)
    loaded = ModelFile.read(_source_file(model, target))
    photographs = _training_photographs(loaded.info, training)
    refuse_training_faces(records, photographs)
    without = dict.fromkeys(("calibration", "trust", "measures"))
    bare = replace(loaded, info=loaded.info.model_copy(update=without))
    with bare.predictor() as predictor:
        measured = measure_faces(predictor, records, corrupted_per_face, seed, progress)
        further, shut = None, None
        if convention_from:
            further = measure_faces(predictor, convention_from, 0, progress=progress)
        if closed_eyes:
            shut = predict_faces(predictor, closed_eyes, progress)
    fitted = fit_trust(
        measured, bare.info.config, success,
        training_photographs="" if photographs is None else photographs.to_text(),
        data=data, further=further, closed_eyes=shut, known=loaded.info.measures,
    )  # fmt: skip
    info = bare.info.model_copy(
        update={
            "name": name or target.stem,
            "version": version or f"{loaded.info.version}+calibrated",
            "calibration": fitted.calibration,
            "trust": fitted.trust,
            "measures": fitted.measures,
        }
    )
    ModelFile(fitted.visibility.apply_to_weights(bare.weights), info, bare.notes).write(target)
    return fitted


def _check_possible(target: Path) -> None:
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


def _training_photographs(
    info: ModelInfo, training: Sequence[FaceRecord]
) -> TrainingPhotographs | None:
    """Given now, or carried by the model."""
    if training:
        return TrainingPhotographs.of(map(photograph_name, training))
    carried = info.trust.training_photographs if info.trust is not None else ""
    return TrainingPhotographs.from_text(carried)


def fit_trust(
    measured: MeasuredFaces,
    config: NetworkConfig,
    success: float = 5.0,
    *,
    training_photographs: str = "",
    data: Sequence[str] = (),
    further: MeasuredFaces | None = None,
    closed_eyes: Faces | None = None,
    known: MeasureCalibration | None = None,
) -> Fitted:
    """Fit everything on predictions with uncalibrated covariances; `further` are plain faces of
    sources that only the label convention is estimated from. Closed eyes are as `known` where
    `closed_eyes` are too few to fit them."""
    check_faces(measured, config)
    first = in_first_part(measured.photograph)
    visibility = fit_visibility(measured[measured.plain])
    measured = visibility.apply_to_faces(measured)
    calibration = fit_calibration(measured[first & measured.plain], config, further)
    measured = measured.calibrated(calibration)
    fit, held = measured[first], measured[~first]
    failure_model = fit_failure_model(fit, success)
    table = feature_table(held.faces, failure_model.shape)
    confidence, expected = failure_model.of_table(table)
    plain = held[held.plain]
    used = sample_in_use(held)
    triage = fit_triage(
        confidence[used],
        held.error[used] >= success,
        float(np.mean(~held.plain[used])),
        failure_model(fit.faces[sample_in_use(fit)])[0],
    )
    trust = Trust(
        failure_model=failure_model,
        conformal=conformalize(
            plain.radii(), landmark_groups(config), predicted_poses(plain.faces)
        ),
        triage=triage,
        reference=fit_reference(table[held.plain]),
        training_photographs=training_photographs,
        data=list(data),
    )
    tables = report_tables(held, confidence, expected, triage, success)
    measures = None
    if config.markup == MEASURED_MARKUP:
        shut = None if closed_eyes is None else calibrated(closed_eyes, calibration)
        measures = fit_all_measures(measured[measured.plain], shut, known)
        of_first = fit_all_measures(fit[fit.plain], None if shut is None else shut[::2])
        tables.append(measures_table(plain, of_first, None if shut is None else shut[1::2]))
    return Fitted(calibration, visibility, trust, measures, tables, advice(trust))


def fit_all_measures(
    plain: MeasuredFaces, shut: Faces | None, known: MeasureCalibration | None = None
) -> MeasureCalibration:
    """Error bars of measures, and the probability of closed eyes from faces whose labels or set
    say that their eyes are open or shut."""
    measures = fit_measures(plain.faces, plain.labels)
    eyes = labelled_eyes(plain.labels)
    parts = [plain.faces[eyes == 1]] + ([] if shut is None else [shut])
    fitted = fit_eyes_closed(plain.faces[eyes == 0], Faces.concatenate(parts), measures)
    if fitted.eyes_closed is not None or known is None:
        return fitted
    return fitted.model_copy(update={"eyes_closed": known.eyes_closed})


def fit_calibration(
    plain: MeasuredFaces, config: NetworkConfig, further: MeasuredFaces | None = None
) -> Calibration:
    """Scale, error distribution, pixel variance and label convention of the covariances."""
    groups = landmark_groups(config)
    faces = plain.faces
    calibration = fit_covariance(
        faces.points,
        faces.covariance,
        plain.labels,
        np.isfinite(plain.labels).all(axis=2),
        config.likelihood,
        groups,
        plain.source,
        faces.occlusion,
    )
    points, labels, sources = faces.points, plain.labels, plain.source
    if further is not None and len(further):
        points = np.concatenate([points, further.faces.points])
        labels = np.concatenate([labels, further.labels])
        sources = np.concatenate([sources, further.source])
    variance = fit_convention(points, labels, sources, groups)
    if not variance.any():
        return calibration
    return calibration.model_copy(update={"convention_variance": np.round(variance, 9).tolist()})


def check_faces(measured: MeasuredFaces, config: NetworkConfig) -> None:
    """Refuse faces that no guarantee can be made of."""
    plain = measured[measured.plain & ~np.isnan(measured.error)]
    if len(plain) < MIN_FACES:
        raise InputError(
            f"calibration takes at least {MIN_FACES} labelled faces, got {len(plain)}: give "
            f"{MIN_FACES - len(plain)} more, of photographs that the model was not trained on."
        )
    hidden = ~np.isfinite(plain.labels).all(axis=2)
    profile = predicted_poses(plain.faces) == "profile"
    if config.visibility_trained and not hidden.any() and profile.mean() > MAX_PROFILES:
        raise InputError(
            f"the labels have no visibility, but {int(profile.sum())} of {len(plain)} faces are "
            "profiles, which hide half of them: give a set with visibility labels, "
            "MERL-RAV for instance, or faces that look ahead."
        )


def in_first_part(photographs: NDArray[np.str_], share: float = FIT_SHARE) -> Bools:
    """(n,) which photographs belong to the first part, by their hashed names."""
    names, place = np.unique(photographs, return_inverse=True)
    digests = [hashlib.sha256(f"fit {name}".encode()).hexdigest()[:13] for name in names.tolist()]
    values: Floats = np.array([int(digest, 16) / 16**13 for digest in digests])
    return np.asarray(values[place] < share)
