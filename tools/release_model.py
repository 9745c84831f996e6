"""Release a trained model: calibrate it on held-out faces, measure it on others, write its card.

    python tools/release_model.py runs/luvli-68 --data DATA           measure only
    python tools/release_model.py runs/luvli-68 --data DATA --ship    and put it in the package
    python tools/release_model.py runs/luvli-68/real.safetensors --data DATA --choose
                         only the error on the faces that are for choosing between models

The run's own recipe says which faces were held out (`measure_model.py`). A model with an open
licence is calibrated on its own, free faces, and measured on those that RESEARCH's recipe holds
out; it has seen neither, nor anything fitted to them. An unfinished run is measured at its last
checkpoint, with its averaged weights.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from fit_trust import fit_trust, trust_tables
from free_faces import free_faces
from luvli import __version__, load
from luvli.calibration import visibility
from luvli.calibration.measure import measure_faces
from luvli.calibration.model_file import ModelFile
from luvli.data.cache import cache_root
from luvli.data.detector_boxes import with_detector_boxes
from luvli.evaluation import LabelledFaces
from luvli.files import write_text
from luvli.models import FOLDER, CardTable, ModelCard
from luvli.network import NetworkConfig, build, load_model, save_model
from luvli.network.licence import is_open
from luvli.prediction.export import export_onnx
from luvli.training.checkpoint import latest_checkpoint, result_weights
from luvli.training.licences import check_licence
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe, read_recipe
from luvli.training.sources import model_detector
from measure_model import (
    COMMAND,
    HeldOut,
    accuracy_table,
    convention_table,
    coverage_table,
    crossed_coverage,
    evaluated,
    headline,
    held_out,
    occlusion_table,
    own_coverage,
    per_face,
    predict,
    speed_table,
    visibility_table,
)
from model_card import make_card
from worst_faces import write_worst_faces

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESEARCH = ROOT / "recipes" / "luvli-68.yaml"
"""whose held-out faces open models are measured on"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="training run, or a model file of one")
    parser.add_argument("--data", type=Path, required=True, help="the run's data.root")
    parser.add_argument("--version", required=True, help="version of the released model")
    parser.add_argument("--ship", action="store_true", help="write the model into the package")
    parser.add_argument("--worst", type=Path, help="folder for images of the worst faces")
    parser.add_argument("--choose", action="store_true", help="do not touch what is reported on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "model.safetensors"
        recipe, progress = snapshot(options.run, model, options.version)
        recipe = with_root(recipe, str(options.data))
        free = is_open(recipe.licence)
        measured = with_root(read_recipe(RESEARCH), str(options.data)) if free else recipe
        held = held_out(measured)
        if options.choose:
            choose(model, held)
            return
        if free:
            check_licence(recipe)
            calibrated_on = free_faces(recipe, Path(place))
            about = ["rendered faces and varied portraits"]
            fitted = fit_trust(model, recipe, calibrated_on, about)
        else:
            fit_visibility(model, held)
        faces, tables = measure(model, held, free, options.worst)
        if not free:
            calibrated_on = held.records
            sources = dict.fromkeys(held.source.tolist())
            counts = [f"{int((held.source == s).sum()):,} held-out faces of {s}" for s in sources]
            fitted = fit_trust(model, recipe, calibrated_on, counts)
        tables += trust_tables(fitted)
        tables.append(speed_table(model, model.with_suffix(".onnx")))
        summary = headline(held, faces, tables[-1])
        tables = [table.model_copy(update={"command": COMMAND}) for table in tables]
        card = make_card(recipe, model, progress, len(calibrated_on), summary, tables)
        Console().print(card.markdown())
        if options.ship:
            ship(model, recipe.name, card)


def measure(
    model: Path, held: HeldOut, calibrated: bool, worst: Path | None
) -> tuple[LabelledFaces, list[CardTable]]:
    """What was predicted from images alone, and the tables of the card.

    A model that is not `calibrated` yet has its coverage measured crosswise. The worst faces
    are drawn into the folder `worst`.
    """
    predictor = load(model, threads=1)
    predictions = predict(predictor, held.records, "detector")
    by_detector = evaluated(held, predictions)
    if worst is not None:
        write_worst_faces(worst, held, predictions)
    by_box = evaluated(held, predict(predictor, held.records, "tight"))
    assert by_detector.covariance is not None
    if calibrated:
        shares = own_coverage(by_detector, predictor.info.likelihood)
        note = (
            "The calibration saw free faces alone: renderings and varied portraits, their labels "
            "moved at random as far as those of two schools lie apart."
        )
    else:
        occlusion = np.stack([np.asarray(face.occlusion, dtype=float) for face in predictions])
        shares = crossed_coverage(held, by_detector, by_detector.covariance, occlusion)
        note = "Each half of the held-out faces by a calibration fitted on the other half."
    return by_detector, [
        accuracy_table(held, by_detector, by_box),
        coverage_table(held, by_detector, shares, note),
        visibility_table(held, by_detector),
        *filter(None, [occlusion_table(held, predictions)]),
        *([convention_table(held, by_detector)] if calibrated else []),
    ]


def fit_visibility(model: Path, held: HeldOut) -> None:
    """Calibrated visibilities, for measuring: fitted on faces that no figure is measured on."""
    chosen = [r for r, by in zip(held.records, held.chosen_by, strict=True) if by]
    loaded = ModelFile.read(model)
    with loaded.predictor() as predictor:
        measured = measure_faces(predictor, with_detector_boxes(chosen, cache_root()), 0)
    fitted = visibility.fit_visibility(measured)
    print(f"visibility: {fitted.slope:.3f} times the logit {fitted.offset:+.3f}")
    replace(loaded, weights=fitted.apply_to_weights(loaded.weights)).write(model)


def choose(model: Path, held: HeldOut) -> None:
    """The error on faces that no figure of the card is measured on."""
    chosen = HeldOut(
        [r for r, by in zip(held.records, held.chosen_by, strict=True) if by],
        held.source[held.chosen_by],
        held.pose[held.chosen_by],
        np.ones(int(held.chosen_by.sum()), dtype=bool),
    )
    faces = evaluated(chosen, predict(load(model, threads=1), chosen.records, "detector"))
    for name, part in chosen.parts().items():
        kind = "box" if chosen.pose[part][0] else "interocular"
        print(f"to choose by: {name}: {per_face(faces, kind)[part].mean():.3f} % of {kind}")


def with_root(recipe: Recipe, root: str, **changes: Any) -> Recipe:
    """The recipe with its data in another folder."""
    data = recipe.data.model_copy(update={"root": root, **changes})
    return recipe.model_copy(update={"data": data})


def snapshot(run: Path, target: Path, version: str) -> tuple[Recipe, str]:
    """The finished model of a run, or the averaged weights of its last checkpoint."""
    finished = run if run.is_file() else run / "model.safetensors"
    if finished.is_file():
        network, trained = load_model(finished)
        recipe = make_recipe(trained["recipe"], str(finished))
        save_model(target, network, model_info(recipe, version) | {"steps": trained["steps"]})
        return recipe, "trained to its end"
    checkpoint = latest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        raise SystemExit(f"{run} has no checkpoint")
    recipe = make_recipe(checkpoint["recipe"], str(run))
    network = build(NetworkConfig.model_validate(recipe.network.model_dump()))
    network.load_state_dict(result_weights(checkpoint))
    save_model(target, network, model_info(recipe, f"{version}-unfinished"))
    stage_name = checkpoint["counter"]["stage"]
    stage = recipe.stages[stage_name]
    seen = checkpoint["counter"]["step"] * stage.batch_size
    return recipe, f"not yet trained to its end: {seen:,} faces into stage {stage_name}"


def model_info(recipe: Recipe, version: str) -> dict[str, Any]:
    """What the model file tells about itself; the recipe without places on this machine."""
    init = None if recipe.init is None else Path(recipe.init).name
    told = with_root(recipe, "DATA", cache=None).model_copy(update={"init": init})
    return {
        "name": recipe.name,
        "licence": recipe.licence,
        "version": version,
        "enlarge": float(recipe.data.enlarge),
        "detector": model_detector(recipe.data),
        "recipe": told.model_dump(mode="json"),
        "luvli": __version__,
    }


def ship(model: Path, name: str, card: ModelCard) -> None:
    """The three files of a shipped model, into the package."""
    target = FOLDER / f"{name}.safetensors"
    target.write_bytes(model.read_bytes())
    found = export_onnx(target, FOLDER / f"{name}.onnx")
    write_card(card)
    print(f"shipped as {name}; ONNX differs from PyTorch by {found.pixels:.1g} px at most")


def write_card(card: ModelCard) -> None:
    """The card in the package, and as a page."""
    write_text(FOLDER / f"{card.name}.json", card.model_dump_json(indent=1) + "\n")
    write_text(DOCS / f"{card.name}.md", card.markdown())


if __name__ == "__main__":
    main()
