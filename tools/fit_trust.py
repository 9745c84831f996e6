"""What a released model knows about when to trust it, fitted: the step that releases share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from luvli.calibration.calibrate import Fitted, calibrate_model
from luvli.calibration.model_file import ModelFile
from luvli.calibration.sampling import evenly
from luvli.data.cache import cache_root
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.record import FaceRecord
from luvli.data.sets import load_set
from luvli.models import CardTable
from luvli.network.licence import is_open
from luvli.progress import track
from luvli.training.recipe import Recipe
from luvli.training.sources import load_source, model_detector
from measure_model import photograph_sources

FURTHER = {"cfp": "cfp", "scut": "scut_fbp5500"}
"""sets -> their folders below the recipe's data"""
FURTHER_FACES = 400
WITHIN = "Held-out photographs that the confidence was not fitted on (docs/trust.md)."


def fit_trust(
    model: Path, recipe: Recipe, faces: Sequence[FaceRecord], about: Sequence[str]
) -> Fitted:
    """Calibration, failure model, conformal radii and triage, fitted on faces that were held out;
    the label convention also on further sets beside the recipe's data. The file is written anew,
    and as ONNX beside it."""
    trained = [
        record
        for name, source in photograph_sources(recipe).items()
        for record in load_source(name, source, recipe.data, recipe.network).train
    ]
    return calibrate_model(
        model,
        _as_detected(faces, recipe),
        model,
        training=trained,
        convention_from=[] if is_open(recipe.licence) else further_faces(recipe),
        name=recipe.name,
        version=ModelFile.read(model).info.version,
        data=about,
        progress=lambda items: track(items, "faces", unit="faces"),
    )


def further_faces(recipe: Recipe) -> list[FaceRecord]:
    """Faces of sets that the model is not trained on, for the label convention."""
    root = Path(recipe.data.root)
    records: list[FaceRecord] = []
    learnt = {source.set for source in recipe.data.sources.values()}
    for name, folder in FURTHER.items():
        if name not in learnt and (root / folder).is_dir():
            faces = load_set(name, root / folder, skip_bad=True).records
            records += evenly(faces, FURTHER_FACES)
    return _as_detected(records, recipe) if records else []


def _as_detected(records: Sequence[FaceRecord], recipe: Recipe) -> list[FaceRecord]:
    cache = Path(recipe.data.cache or cache_root())
    return with_detector_boxes(records, cache, model_detector(recipe.data))


def trust_tables(fitted: Fitted) -> list[CardTable]:
    """What the confidence and the triage are worth, for a model's card."""
    tables = []
    for title, heads, rows in fitted.tables:
        name, _, about = title.partition(", ")
        note = f"{about[:1].upper()}{about[1:]}. {WITHIN}" if about else WITHIN
        tables.append(CardTable(title=name.capitalize(), headings=heads, rows=rows, note=note))
    return tables
