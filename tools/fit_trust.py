"""What a released model knows about when to trust it, fitted: the step that releases share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from luvli.training.sources import SourceFaces, model_detector

CONVENTIONS = {"cfp": "cfp", "scut": "scut_fbp5500"}
"""sets with label conventions of their own -> their folders below the recipe's data"""
CONVENTION_FACES = 400
CLOSED_EYES = {"closed_eyes": "closed_eyes"}
WITHIN = "Held-out photographs that the confidence was not fitted on (docs/trust.md)."


def fit_trust(
    model: Path,
    recipe: Recipe,
    sources: Mapping[str, SourceFaces],
    faces: Sequence[FaceRecord],
    about: Sequence[str],
) -> Fitted:
    """Calibration, failure model, conformal radii, triage and measures, fitted on `faces` that were
    held out; for research models the label convention and closed eyes also on further sets beside
    the recipe's data. The file is written anew. `sources`: `published_faces` of the recipe."""
    photographs = {
        name: source
        for name, source in sources.items()
        if recipe.data.sources[name].set is not None
    }
    trained = [record for source in photographs.values() for record in source.train]
    free = is_open(recipe.licence)
    return calibrate_model(
        model,
        _as_detected(faces, recipe),
        model,
        training=trained,
        convention_from=[] if free else unseen_faces(recipe, sources, CONVENTIONS),
        closed_eyes=[] if free else unseen_faces(recipe, sources, CLOSED_EYES, None),
        name=recipe.name,
        version=ModelFile.read(model).info.version,
        data=about,
        progress=lambda items: track(items, "faces", unit="faces"),
    )


def unseen_faces(
    recipe: Recipe,
    sources: Mapping[str, SourceFaces],
    sets: Mapping[str, str],
    count: int | None = CONVENTION_FACES,
) -> list[FaceRecord]:
    """At most `count` faces of each set that the model was not trained on; all of them where the
    set is no source of the recipe. Sets whose folder is not there are left out."""
    root = Path(recipe.data.root)
    records: list[FaceRecord] = []
    for name, folder in sets.items():
        if not (root / folder).is_dir():
            continue
        trained = {
            record.name
            for each, source in sources.items()
            if recipe.data.sources[each].set == name
            for record in source.train
        }
        every = load_set(name, root / folder, skip_bad=True).records
        faces = [record for record in every if record.name not in trained]
        records += faces if count is None else evenly(faces, count)
    return _as_detected(records, recipe) if records else []


def _as_detected(records: Sequence[FaceRecord], recipe: Recipe) -> list[FaceRecord]:
    return with_detector_boxes(records, box_cache(recipe), model_detector(recipe.data))


def box_cache(recipe: Recipe) -> Path:
    """Where the boxes of the detector are kept."""
    return Path(recipe.data.cache or cache_root())


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
