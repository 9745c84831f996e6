"""Release a trained model: calibration, measurements, card, ONNX and safetensors in one.

    python tools/release_model.py RUN                        into RUN/release
    python tools/release_model.py RUN --ship                 and into the package
    python tools/release_model.py runs/open --measure luvli-68
                         measured on the faces that another recipe holds out
    python tools/release_model.py RUN/full.safetensors --choose
                         only the error on the faces that are for choosing between models

The run's own recipe names version, data and held-out faces (`measure_model.py`). A model with an
open licence is calibrated on its own, free faces alone. An unfinished run is measured at its last
checkpoint, with its averaged weights.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from fit_trust import box_cache, fit_trust, trust_tables
from free_faces import free_faces
from luvli import __version__, load
from luvli.evaluation import LabelledFaces
from luvli.files import whole_file, write_text
from luvli.models import DIGESTS, FOLDER, CardTable, ModelCard, known_digests
from luvli.network import build, load_model, save_model
from luvli.network.licence import is_open
from luvli.prediction.export import export_onnx
from luvli.training.checkpoint import latest_checkpoint, result_weights
from luvli.training.ingredients import check_recipe_licence
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe, read_recipe
from luvli.training.sources import SourceFaces, model_detector
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
    predict_alone,
    published_faces,
    speed_table,
    visibility_table,
)
from model_card import make_card
from worst_faces import write_worst_faces


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="training run, or a model file of one")
    parser.add_argument("--data", help="folder of the faces; the run's data.root by default")
    parser.add_argument("--version", help="of the released model; the recipe's by default")
    parser.add_argument("--out", type=Path, help="folder for the files; RUN/release by default")
    parser.add_argument("--measure", help="recipe whose held-out faces the figures are of")
    parser.add_argument("--ship", action="store_true", help="write the model into the package")
    parser.add_argument("--worst", type=Path, help="folder for images of the worst faces")
    parser.add_argument("--choose", action="store_true", help="do not touch what is reported on")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "model.safetensors"
        recipe, progress = snapshot(options.run, model, options.version)
        root = options.data or recipe.data.root
        recipe = with_root(recipe, root)
        measured = recipe
        if options.measure:
            measured = with_root(read_recipe(options.measure), root, cache=recipe.data.cache)
        measured_sources = published_faces(measured)
        held = held_out(measured_sources)
        if options.choose:
            choose(model, held, box_cache(recipe))
            return
        sources = published_faces(recipe) if options.measure else measured_sources
        card = calibrate_and_measure(model, recipe, sources, held, progress, options.worst)
        Console().print(card.markdown())
        folder = options.run if options.run.is_dir() else options.run.parent
        released = options.out or folder / "release"
        write_release(released, model, card)
        write_text(released / f"{card.name}.md", card.markdown())
        if options.ship:
            write_release(FOLDER, model, card)
            note_digest(card)


def calibrate_and_measure(
    model: Path,
    recipe: Recipe,
    sources: Mapping[str, SourceFaces],
    held: HeldOut,
    progress: str,
    worst: Path | None,
) -> ModelCard:
    """Write the model anew with its calibration; -> its card."""
    free = is_open(recipe.licence)
    if free:
        check_recipe_licence(recipe)
        records, about = free_faces(recipe, model.parent), ["rendered faces and varied portraits"]
    else:
        records = held.records
        names = dict.fromkeys(held.source.tolist())
        about = [f"{int((held.source == s).sum()):,} held-out faces of {s}" for s in names]
    fitted = fit_trust(model, recipe, sources, records, about)
    faces, tables = measure(model, held, free, box_cache(recipe), worst)
    tables += [*trust_tables(fitted), speed_table(model, model.with_suffix(".onnx"))]
    tables = [table.model_copy(update={"command": COMMAND}) for table in tables]
    summary = headline(held, faces, tables[-1])
    return make_card(recipe, sources, model, progress, len(records), summary, tables)


def measure(
    model: Path, held: HeldOut, free: bool, cache: Path, worst: Path | None
) -> tuple[LabelledFaces, list[CardTable]]:
    """What was predicted from images alone, and the tables of the card.

    The coverage of a model that was not calibrated on `free` faces is measured crosswise. The worst
    faces are drawn into the folder `worst`.
    """
    predictor = load(model, threads=1)
    calibration = predictor.info.calibration
    assert calibration is not None
    predictions = predict_alone(predictor, held.records, cache)
    by_detector = evaluated(held, predictions)
    if worst is not None:
        write_worst_faces(worst, held, predictions)
    by_box = evaluated(held, predict(predictor, held.records, "tight"))
    if free:
        shares = own_coverage(by_detector, predictor.info.likelihood)
        note = (
            "The calibration saw free faces alone: renderings and varied portraits, their labels "
            "moved at random as far as those of two schools lie apart."
        )
    else:
        shares = crossed_coverage(held, by_detector, calibration)
        note = (
            "Each half of the held-out faces by a calibration fitted on the other half, and the "
            "variance of the label convention between all sources."
        )
    return by_detector, [
        accuracy_table(held, by_detector, by_box),
        coverage_table(held, by_detector, shares, note),
        visibility_table(held, by_detector),
        *filter(None, [occlusion_table(held, predictions)]),
        *([convention_table(held, by_detector)] if free else []),
    ]


def choose(model: Path, held: HeldOut, cache: Path) -> None:
    """The error on faces that no figure of the card is measured on."""
    chosen = HeldOut(
        [r for r, by in zip(held.records, held.chosen_by, strict=True) if by],
        held.source[held.chosen_by],
        held.pose[held.chosen_by],
        np.ones(int(held.chosen_by.sum()), dtype=bool),
    )
    faces = evaluated(chosen, predict_alone(load(model, threads=1), chosen.records, cache))
    for name, part in chosen.parts().items():
        kind = chosen.normalizer(part)
        print(f"to choose by: {name}: {per_face(faces, kind)[part].mean():.3f} % of {kind}")


def with_root(recipe: Recipe, root: str, **changes: Any) -> Recipe:
    """The recipe with its data in another folder."""
    data = recipe.data.model_copy(update={"root": root, **changes})
    return recipe.model_copy(update={"data": data})


def snapshot(run: Path, target: Path, version: str | None) -> tuple[Recipe, str]:
    """The finished model of a run, or the averaged weights of its last checkpoint."""
    finished = run if run.is_file() else run / "model.safetensors"
    if finished.is_file():
        network, trained = load_model(finished)
        recipe = make_recipe(trained["recipe"], str(finished))
        info = model_info(recipe, version or recipe.version or "0")
        save_model(target, network, info | {"steps": trained["steps"]})
        return recipe, "trained to its end"
    checkpoint = latest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        raise SystemExit(f"{run} has no checkpoint")
    recipe = make_recipe(checkpoint["recipe"], str(run))
    stage_name = checkpoint["counter"]["stage"]
    stage = recipe.stages[stage_name]
    network = build(recipe.stage_network(stage))
    network.load_state_dict(result_weights(checkpoint))
    save_model(target, network, model_info(recipe, f"{version or recipe.version}-unfinished"))
    seen = checkpoint["counter"]["step"] * stage.batch_size
    return recipe, f"not yet trained to its end: {seen:,} faces into stage {stage_name}"


def model_info(recipe: Recipe, version: str) -> dict[str, Any]:
    """What the model file says about itself; the recipe without places on this machine."""
    plain = with_root(recipe, "DATA", cache=None)
    stages = {
        name: stage.model_copy(update={"teacher": by_version(stage.teacher)})
        for name, stage in plain.stages.items()
    }
    plain = plain.model_copy(update={"init": by_version(recipe.init), "stages": stages})
    return {
        "name": recipe.name,
        "licence": recipe.licence,
        "version": version,
        "enlarge": float(recipe.data.enlarge),
        "detector": model_detector(recipe.data),
        "recipe": plain.model_dump(mode="json"),
        "luvli": __version__,
    }


def by_version(model: str | None) -> str | None:
    """NAME@VERSION of a model file that a run started from or learnt from."""
    if model is None or not Path(model).is_file():
        return model
    info = load_model(Path(model))[1]
    return f"{info['name']}@{info.get('version') or info['recipe']['version']}"


def write_release(folder: Path, model: Path, card: ModelCard) -> None:
    """`NAME.safetensors`, `NAME.onnx` and the card `NAME.json`."""
    target = folder / f"{card.name}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as temporary:
        temporary.write_bytes(model.read_bytes())
    exported = export_onnx(target, folder / f"{card.name}.onnx")
    write_text(folder / f"{card.name}.json", card.model_dump_json(indent=1) + "\n")
    print(f"written to {folder}; ONNX differs from PyTorch by {exported.pixels:.1g} px at most")


def note_digest(card: ModelCard) -> None:
    """Which file this version is, for recipes that name it."""
    digests = known_digests()
    content = (FOLDER / f"{card.name}.safetensors").read_bytes()
    digests.setdefault(card.name, {})[card.version] = hashlib.sha256(content).hexdigest()
    write_text(FOLDER / DIGESTS, json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    main()
