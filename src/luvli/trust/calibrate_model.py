"""A model file in, the same model with its trust tables out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from luvli.data.record import FaceRecord
from luvli.data.sets import SETS
from luvli.errors import InputError, require
from luvli.files import PathLike, whole_file
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo
from luvli.prediction.predictor import Predictor, load
from luvli.progress import Track
from luvli.trust.calibrate_visibility import calibrate_visibility
from luvli.trust.fit_tables import Fitted, fit_tables
from luvli.trust.measure import measure_faces
from luvli.trust.seen import Seen, photograph_name

if TYPE_CHECKING:
    from luvli.network.model import LUVLi

SEEN_SHARE = 0.05
"""share of calibration faces that may look like training faces by chance"""
ANY_FOLDER = "folder"
"""the data set of faces of which nobody knows whence they came"""
NAMED_SHARE = 0.5
"""the same of faces from a folder, whose photographs may have come from any data set, and may be
called like others'"""

LEARN_FROM = 8000
"""training faces that teach a network enough about when it went astray: with a tenth of them five
times as many upside-down faces are believed"""


def calibrate_model(
    model: PathLike,
    records: Sequence[FaceRecord],
    out: PathLike,
    *,
    onnx: PathLike | None = None,
    trained_on: Sequence[FaceRecord] = (),
    learn_from: Sequence[FaceRecord] = (),
    success: float = 5.0,
    spoilt_per_face: int = 3,
    seed: int = 0,
    data: Sequence[str] = (),
    visibility_from: Sequence[FaceRecord] | None = None,
    track: Track = iter,
) -> Fitted:
    """Fit calibration, confidence, regions and triage on held-out faces; write the model anew.

    A `.safetensors` model also has its covariances and visibilities scaled again, and may be
    written as `onnx` at once; of an `.onnx` model, whose scales are inside, the tables alone are
    fitted. Visibilities are scaled by those of `visibility_from`, all `records` by default, whose
    data sets tell hidden landmarks. On the faces `learn_from`, which may be those that it was
    trained on, the network learns to tell when it went astray (`luvli.trust.learn_astray`); without
    any it keeps what it has. Nothing is written unless everything fits.
    """
    source, target = Path(model), Path(out)
    if source.suffix not in (".safetensors", ".onnx") or target.suffix != source.suffix:
        raise InputError(
            f"{target} must have the suffix of {source} (.safetensors or .onnx): choose another "
            "name."
        )
    seen = Seen.of(map(photograph_name, trained_on)) if trained_on else None
    telling = records if visibility_from is None else visibility_from
    job = _Calibration(
        records, telling, learn_from, seen, success, spoilt_per_face, seed, data, track
    )
    if source.suffix == ".safetensors":
        return _safetensors(source, target, onnx, job)
    if onnx is not None:
        raise InputError(f"{source} is an ONNX file already: --out names what is written.")
    if learn_from:
        raise InputError(
            f"{source} is an ONNX file, whose network learns nothing more: calibrate its "
            ".safetensors file."
        )
    return _onnx(source, target, job)


class _Calibration(NamedTuple):
    """What a model is calibrated on, and how."""

    records: Sequence[FaceRecord]
    telling: Sequence[FaceRecord]
    """faces that visibilities are scaled by"""
    learn_from: Sequence[FaceRecord]
    """faces that teach the network to tell when it went astray"""
    seen: Seen | None
    success: float
    spoilt_per_face: int
    seed: int
    data: Sequence[str]
    track: Track

    def trained_on(self, info: ModelInfo) -> str:
        """The filter of training photographs, given now or carried by the model; refuses faces
        that are among them."""
        carried = info.trust.trained_on if info.trust is not None else ""
        text = carried if self.seen is None else self.seen.to_text()
        refuse_training_faces(self.records, Seen.from_text(text))
        return text

    def fit(
        self, predictor: Predictor, config: NetworkConfig, trained_on: str, scale: bool
    ) -> Fitted:
        measured = measure_faces(
            predictor, self.records, self.spoilt_per_face, self.seed, self.track
        )
        return fit_tables(measured, config, self.success, trained_on, scale, self.data)


def refuse_training_faces(records: Sequence[FaceRecord], seen: Seen | None) -> None:
    """Guarantees from faces that the model has learnt by heart would be worthless."""
    if seen is None or not records:
        return
    known = sum(photograph_name(record) in seen for record in records)
    if known > SEEN_SHARE * len(records):
        raise InputError(
            f"{known:,} of {len(records):,} faces are on photographs that the model was trained "
            "on: calibrate on held-out faces (--recipe takes those of the training)."
        )
    named = sum(
        any(f"{name}/{record.image.name}" in seen for name in SETS)
        for record in records
        if record.image is not None and record.dataset in (ANY_FOLDER, "")
    )
    if named > NAMED_SHARE * len(records):
        raise InputError(
            f"{named:,} of {len(records):,} faces have names of photographs that the model was "
            "trained on: calibrate on held-out faces, or rename the files if they are others."
        )


def _safetensors(source: Path, target: Path, onnx: PathLike | None, job: _Calibration) -> Fitted:
    require("torch", "train")
    from luvli.network.weights import load_model, save_model
    from luvli.prediction.export import export_onnx

    network, info = load_model(source)
    trained_on = job.trained_on(ModelInfo.from_training(source.stem, network.config, info))
    plain: dict[str, Any] = {k: v for k, v in info.items() if k not in ("calibration", "trust")}
    with uncalibrated(network, source.stem, plain) as predictor:
        calibrate_visibility(network, predictor, job.telling, job.track)
    if job.learn_from:
        from luvli.trust.learn_astray import learn_astray

        about = ModelInfo.from_training(source.stem, network.config, plain)
        network = learn_astray(network, about, job.learn_from, track=job.track)
    with uncalibrated(network, source.stem, plain) as predictor:
        fitted = job.fit(predictor, network.config, trained_on, scale=True)
    assert fitted.calibration is not None
    plain["calibration"] = fitted.calibration.model_dump()
    plain["trust"] = fitted.trust.model_dump()
    save_model(target, network, plain)
    if onnx is not None:
        export_onnx(target, onnx)
    return fitted


@contextmanager
def uncalibrated(network: LUVLi, name: str, info: Mapping[str, Any]) -> Iterator[Predictor]:
    """The network as it is used, but with its covariances as they leave it."""
    from luvli.prediction.export import export_network

    plain = {key: value for key, value in info.items() if key != "calibration"}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"{name}.onnx"
        export_network(network, ModelInfo.from_training(name, network.config, plain), path)
        yield load(path)


def _onnx(source: Path, target: Path, job: _Calibration) -> Fitted:
    package = require("onnx", "train")
    predictor = load(source)
    info = predictor.info
    fitted = job.fit(predictor, info.config, job.trained_on(info), scale=False)
    proto = package.load(source)
    metadata = info.model_copy(update={"trust": fitted.trust}).to_metadata()
    package.helper.set_model_props(proto, metadata)
    with whole_file(target) as temporary:
        package.save(proto, temporary)
    return fitted
