"""What a released model knows about when to trust it, fitted: the step that releases share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from luvli.calibration.calibrate import Fitted, calibrate_model
from luvli.calibration.measure import evenly
from luvli.calibration.model_file import ModelFile
from luvli.data.cache import cache_root
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.record import FaceRecord
from luvli.data.sets import load_set
from luvli.models import CardTable
from luvli.network.licence import is_open
from luvli.progress import track
from luvli.training.recipe import Recipe
from luvli.training.sources import load_source, model_detector
from measure_model import PUBLISHED, photograph_sources

CONVENTIONS = {"cfp": "cfp", "scut": "scut_fbp5500"}
"""sets with label conventions of their own -> their folders below the recipe's data"""
CONVENTION_FACES = 400
CLOSED_EYES = {"closed_eyes": "closed_eyes"}
WITHIN = "Held-out photographs that the confidence was not fitted on (docs/trust.md)."


def fit_trust(
    model: Path, recipe: Recipe, faces: Sequence[FaceRecord], about: Sequence[str]
) -> Fitted:
    """Calibration, failure model, conformal radii, triage and measures, fitted on faces that were
    held out; for research models the label convention and closed eyes also on further sets beside
    the recipe's data. The file is written anew."""
    trained = [
        record
        for name, source in photograph_sources(recipe).items()
        for record in load_source(name, source, recipe.data, recipe.network).train
    ]
    free = is_open(recipe.licence)
    return calibrate_model(
        model,
        _as_detected(faces, recipe),
        model,
        training=trained,
        convention_from=[] if free else unseen_faces(recipe, CONVENTIONS, CONVENTION_FACES),
        closed_eyes=[] if free else unseen_faces(recipe, CLOSED_EYES),
        name=recipe.name,
        version=ModelFile.read(model).info.version,
        data=about,
        progress=lambda items: track(items, "faces", unit="faces"),
    )


def unseen_faces(
    recipe: Recipe, sets: dict[str, str], count: int | None = None
) -> list[FaceRecord]:
    """At most `count` faces of each set that the model was not trained on; all of them where the
    set is no source of the recipe. Sets whose folder is not there are left out."""
    root = Path(recipe.data.root)
    records: list[FaceRecord] = []
    for name, folder in sets.items():
        if not (root / folder).is_dir():
            continue
        faces = list(load_set(name, root / folder, skip_bad=True).records)
        for each, source in recipe.data.sources.items():
            if source.set == name:
                plain = source.model_copy(update=PUBLISHED)
                trained = load_source(each, plain, recipe.data, recipe.network).train
                names = {record.name for record in trained}
                faces = [record for record in faces if record.name not in names]
        records += faces if count is None else evenly(faces, count)
    return _as_detected(records, recipe) if records else []


def _as_detected(records: Sequence[FaceRecord], recipe: Recipe) -> list[FaceRecord]:
    cache = Path(recipe.data.cache or cache_root())
    return with_detector_boxes(records, cache, model_detector(recipe.data))


def trust_tables(fitted: Fitted) -> list[CardTable]:
    """What confidence, triage and measures are worth, for a model's card."""
    return [
        CardTable(
            title=table.title.capitalize(),
            headings=list(table.head),
            rows=[list(row) for row in table.rows],
            note=" ".join([*table.notes, WITHIN]),
        )
        for table in fitted.tables[1:]  # ellipses: measured on the faces of the fit
    ]
