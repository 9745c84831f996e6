"""What a released model knows about when to trust it, fitted: the step that releases share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from free_faces import is_version
from luvli.data.cache import cache_root
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.record import FaceRecord
from luvli.models import CardTable
from luvli.network.licence import is_open
from luvli.progress import track
from luvli.training.recipe import Recipe
from luvli.training.sources import load_source, model_detector
from luvli.trust.calibrate_model import LEARN_FROM, calibrate_model
from luvli.trust.even_sample import evenly
from luvli.trust.fit_tables import Fitted
from measure_model import PUBLISHED, photograph_sources

WITHIN = "Held-out photographs that the confidence was not fitted on (docs/trust.md)."


def fit_trust(
    model: Path,
    recipe: Recipe,
    faces: Sequence[FaceRecord],
    about: Sequence[str],
    scale_visibility: bool = True,
    learn: bool = True,
) -> Fitted:
    """Calibration, confidence, regions and triage, fitted on faces that were held out, after the
    network has learnt from its training faces to tell when it went astray, unless it should keep
    what it has; the file is written anew."""
    trained = [
        record
        for name, source in photograph_sources(recipe).items()
        for record in load_source(name, source, recipe.data, recipe.network).train
    ]
    found = _as_detected(faces, recipe)
    # portraits look into the camera: that nothing of them is hidden says nothing about what is
    telling = [r for r in found if not is_version(r)] if scale_visibility else []
    return calibrate_model(
        model,
        found,
        model,
        trained_on=trained,
        learn_from=training_faces(recipe, model) if learn else (),
        data=about,
        visibility_from=telling,
        track=lambda items: track(items, "faces", unit="faces"),
    )


def training_faces(recipe: Recipe, model: Path) -> list[FaceRecord]:
    """Faces that the model was trained on, as its detector finds them. An open model's own labels
    do for portraits without any: how far a spoilt image leads it astray, they tell well enough."""
    records: list[FaceRecord] = []
    for name, source in recipe.data.sources.items():
        if source.synthetic is not None and source.synthetic.textures is not None:
            continue  # such faces need the labels of a stage that is gone
        plain = dict(PUBLISHED)
        if source.relabel is not None and is_open(recipe.licence):
            plain |= {"boxes": source.boxes, "relabel": str(model)}
        faces = load_source(name, source.model_copy(update=plain), recipe.data, recipe.network)
        records += [record for record in faces.train if record.labelled.any()]
    return _as_detected(evenly(records, LEARN_FROM), recipe)


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
