"""Measures with error bars on held-out faces: do 68 and 95 % intervals hold 68 and 95 %?

    python benchmarks/measures.py DATA [--model luvli-68]

DATA holds 300w/ and, for closed eyes, closed_eyes/. Faces are those that the recipe luvli-68 holds
out; the calibration is fitted on one half of them by photograph and measured on the other half, and
the other way round. Closed eyes: the probability is fitted on one half and measured on the other.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from luvli.data.sets import load_set
from luvli.evaluation.fit_measures import fit_eyes_closed, fit_measures, measure_errors
from luvli.evaluation.labelled_faces import LabelledFaces, predict_records
from luvli.evaluation.visibility import auroc
from luvli.face_measures import with_measures
from luvli.faces import Faces
from luvli.prediction.predictor import Predictor, load
from luvli.training.recipe_files import read_recipe
from luvli.training.sources import load_source

RECIPE = Path(__file__).parents[1] / "recipes/luvli-68.yaml"


def held_out(predictor: Predictor, root: Path, sources: tuple[str, ...]) -> LabelledFaces:
    recipe = read_recipe(RECIPE)
    data = recipe.data.model_copy(update={"root": str(root)})
    records = [
        record
        for name in sources
        for record in load_source(
            name, data.sources[name].model_copy(update={"boxes": "labels"}), data, recipe.network
        ).held_out
    ]
    labelled = predict_records(predictor, records, crop_by="detector")
    return labelled[~np.isnan(labelled.faces.points).any(axis=(1, 2))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--model", default="luvli-68")
    options = parser.parse_args()
    if options.data is None:
        print("no data given: nothing to measure")
        return
    predictor = load(options.model, threads=1)
    labelled = held_out(predictor, options.data, ("lfpw", "helen", "afw", "merl"))
    half = np.arange(len(labelled)) % 2 == 0
    errors: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for fit, test in ((half, ~half), (~half, half)):
        calibration = fit_measures(labelled[fit])
        for name, (error, measure) in measure_errors(labelled[test], calibration).items():
            reach = [measure.interval(level)[1] - measure.value for level in (0.68, 0.95)]
            errors.setdefault(name, []).append((np.abs(error), *reach))
    table = Table("measure", "faces", "mean error", "68 % hold", "95 % hold",
                  title=f"{options.model}, {len(labelled)} held-out faces")  # fmt: skip
    for name, parts in errors.items():
        error, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
        table.add_row(name, f"{len(error)}", f"{error.mean():.3f}", f"{(error < low).mean():.1%}",
                      f"{(error < high).mean():.1%}")  # fmt: skip
    Console().print(table)
    closed_eyes(predictor, options.data, labelled)


def closed_eyes(predictor: Predictor, root: Path, labelled: LabelledFaces) -> None:
    records = load_set("closed_eyes", root / "closed_eyes").records
    shut = Faces.concatenate(
        [predictor.predict(str(record.image))[:1] for record in records if record.image]
    )
    plain = fit_measures(labelled)
    frontal = labelled.faces[
        [name.split("_")[0] not in ("left", "right") for name in labelled.names]
    ]
    scores, truth = [], []
    for turn in (0, 1):
        fit = [faces[np.arange(len(faces)) % 2 == turn] for faces in (frontal, shut)]
        test = [faces[np.arange(len(faces)) % 2 != turn] for faces in (frontal, shut)]
        calibration = fit_eyes_closed(fit[0], fit[1], plain)
        for label, faces in enumerate(test):
            scores.append(with_measures(faces, calibration).eyes_closed)
            truth.append(np.full(len(faces), label == 1))
    probability, closed = np.concatenate(scores), np.concatenate(truth)
    called = (probability[closed] > 0.5).mean(), (probability[~closed] > 0.5).mean()
    print(
        f"closed eyes: AUROC {auroc(probability, closed):.4f}; called closed: {called[0]:.1%} of "
        f"{closed.sum()} closed, {called[1]:.1%} of {(~closed).sum()} others, some of which blink"
    )


if __name__ == "__main__":
    main()
