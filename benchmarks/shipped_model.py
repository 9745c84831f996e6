"""Calibrate a trained model on held-out faces, measure it on others, and write its card.

    python benchmarks/shipped_model.py runs/luvli-68 --data DATA           measure only
    python benchmarks/shipped_model.py runs/luvli-68 --data DATA --ship    and put it in the package
    python benchmarks/shipped_model.py runs/luvli-68/luvli.safetensors --data DATA --choose
                         only the error on the photographs that are for choosing between models

The run's own recipe says which faces were held out. Every second held-out photograph, in the
order of their hashed names, is for choosing between models; accuracy is measured on the others.
All of them set the calibration; its coverage is measured crosswise, each half with the factors
of the other. An unfinished run is measured at its last checkpoint, with its averaged weights.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from luvli import __version__, load
from luvli.data.record import FaceRecord
from luvli.data.sets import load_set
from luvli.evaluation import EvaluatedFaces, auc, bootstrap, failure_rate, nme
from luvli.evaluation.evaluate_model import CropBy, run_model
from luvli.evaluation.evaluated_faces import from_records
from luvli.evaluation.uncertainty import radii
from luvli.files import write_text
from luvli.markup import get_markup
from luvli.models import FOLDER, CardTable, ModelCard
from luvli.network import NetworkConfig, build, load_model, save_model
from luvli.prediction.export import export_onnx
from luvli.prediction.predictor import Predictor
from luvli.training.batch import is_frontal
from luvli.training.checkpoint import latest_checkpoint, result_weights
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe
from luvli.training.sources import load_source
from luvli.trust.calibrate import Calibration, coverage, fit

Floats = NDArray[np.float64]
LEVELS = (0.5, 0.8, 0.95)
DOCS = Path(__file__).parents[1] / "docs"

COMMAND = "python benchmarks/shipped_model.py RUN --data DATA"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, nargs="?", help="training run, or a model file of one")
    parser.add_argument("--data", type=Path, help="the folder that was data.root of the run")
    parser.add_argument("--ship", action="store_true", help="write the model into the package")
    parser.add_argument("--choose", action="store_true", help="do not touch what is reported on")
    options = parser.parse_args()
    if options.run is None or options.data is None:
        print("no run and no data given: nothing to measure")
        return
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "model.safetensors"
        recipe, progress = snapshot(options.run, model)
        recipe = recipe.model_copy(
            update={"data": recipe.data.model_copy(update={"root": str(options.data)})}
        )
        photographs, frames, rendered = held_out(recipe)
        choice, report = photographs[::2], photographs[1::2]
        if options.choose:
            choose(load(model, "torch", threads=1), choice)
            return
        crossed = calibrate(model, photographs)
        shift = recipe.data.sources["lfpw"].offset
        predictor = load(model, "torch", threads=1)
        tables = figures(predictor, report, frames, rendered, options.data, shift, crossed)
        tables.append(speed(model, model.with_suffix(".onnx")))
        tables = [table.model_copy(update={"command": COMMAND}) for table in tables]
        card = make_card(recipe, model, progress, len(photographs), tables)
        Console().print(card.markdown())
        if options.ship:
            ship(model, recipe.name, card)


def snapshot(run: Path, target: Path) -> tuple[Recipe, str]:
    """The finished model of a run, or the averaged weights of its last checkpoint."""
    finished = run if run.is_file() else run / "model.safetensors"
    if finished.is_file():
        network, trained = load_model(finished)
        recipe = make_recipe(trained["recipe"], str(finished))
        save_model(target, network, model_info(recipe, "1.0") | {"steps": trained["steps"]})
        return recipe, "trained to its end"
    checkpoint = latest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        raise SystemExit(f"{run} has no checkpoint")
    recipe = make_recipe(checkpoint["recipe"], str(run))
    network = build(NetworkConfig.model_validate(recipe.network.model_dump()))
    network.load_state_dict(result_weights(checkpoint))
    save_model(target, network, model_info(recipe, "0.1"))
    stage_name = checkpoint["counter"]["stage"]
    stage = recipe.stages[stage_name]
    seen = checkpoint["counter"]["step"] * stage.batch_size
    return recipe, f"not yet trained to its end: {seen:,} faces into stage {stage_name}"


def model_info(recipe: Recipe, version: str) -> dict[str, Any]:
    """What the model file tells about itself; the recipe without places on this machine."""
    elsewhere = recipe.data.model_copy(update={"root": "DATA", "cache": None})
    return {
        "name": recipe.name,
        "licence": recipe.licence,
        "version": version,
        "enlarge": float(recipe.data.enlarge),
        "recipe": recipe.model_copy(update={"data": elsewhere}).model_dump(mode="json"),
        "luvli": __version__,
    }


def choose(predictor: Predictor, photographs: Sequence[FaceRecord]) -> None:
    """The error on photographs that no figure of the card is measured on."""
    faces = evaluated(predictor, photographs, "detector")
    print("to choose by:", *accuracy("LFPW, detector's boxes", faces))


def held_out(recipe: Recipe) -> tuple[list[FaceRecord], list[FaceRecord], list[FaceRecord]]:
    """Held-out photographs (LFPW, in the order of hashed names), frames (YTF), rendered (ICT).

    The photographs' labels are as published, whatever the recipe does to them in training.
    """
    as_published = recipe.data.sources["lfpw"].model_copy(update={"offset": (0.0, 0.0)})
    sources = recipe.data.sources | {"lfpw": as_published}
    photographs, frames, rendered = (
        list(load_source(name, sources[name], recipe.data).held_out)
        for name in ("lfpw", "ytf", "ict")
    )
    photographs.sort(key=lambda record: hashlib.sha256(record.face_id.encode()).hexdigest())
    return photographs, frames, rendered


def evaluated(
    predictor: Predictor, records: Sequence[FaceRecord], crop_by: CropBy
) -> EvaluatedFaces:
    return from_records(records, list(run_model(predictor, records, crop_by)))


def calibrate(model: Path, records: Sequence[FaceRecord]) -> Floats:
    """Fit the calibration by detector crops, as users meet them, and keep it in the file.

    Returns Mahalanobis distances (n, k) of the labels, each half's by the other half's factors.
    """
    faces = evaluated(load(model, "torch", threads=1), records, "detector")
    covariance = faces.covariance
    assert covariance is not None

    def fitted(chosen: NDArray[np.bool_]) -> Calibration:
        return fit(
            faces.predicted[chosen],
            covariance[chosen],
            faces.truth[chosen],
            faces.visible[chosen],
            groups=get_markup("ibug68").groups,
        )

    found = ~faces.failed
    even = np.arange(len(records)) % 2 == 0
    network, info = load_model(model)
    save_model(model, network, info | {"calibration": fitted(found).model_dump()})
    distances = np.full(faces.truth.shape[:2], np.nan)
    for half in (even, ~even):
        there = found & half
        distances[there] = radii(
            faces.predicted[there],
            fitted(found & ~half).apply(covariance[there]),
            faces.truth[there],
            faces.visible[there],
        )
    return distances


def figures(
    predictor: Predictor,
    photographs: Sequence[FaceRecord],
    frames: Sequence[FaceRecord],
    rendered: Sequence[FaceRecord],
    data: Path,
    shift: tuple[float, float],
    crossed: Floats,
) -> list[CardTable]:
    by_detector = evaluated(predictor, photographs, "detector")
    by_label = evaluated(predictor, photographs, "tight")
    moved = replace(by_detector, truth=by_detector.truth + shift)
    ahead = np.array([is_frontal(record.points) for record in photographs])
    moving = evaluated(predictor, frames, "detector")
    test = list(load_set("ytf68", data / "ytf68", "test"))
    test = [r.with_changes(points=r.points - 1.0) for r in test]
    watched = evaluated(predictor, test, "detector")
    drawn = evaluated(predictor, rendered, "tight")
    rows = [
        accuracy("LFPW, detector's boxes", by_detector),
        accuracy("LFPW, boxes from the labels", by_label),
        accuracy(f"LFPW, detector's boxes, labels moved by {shift[0]:g} px in x", moved),
        accuracy("LFPW, looking ahead, detector's boxes", part(by_detector, ahead)),
        accuracy("LFPW, turned, detector's boxes", part(by_detector, ~ahead)),
        accuracy("YTF, people not trained on", moving),
        accuracy("YTF test (people also in training)", watched),
    ]
    return [
        CardTable(
            title="Accuracy",
            headings=[
                "faces",
                "n",
                "NME inter-ocular %",
                "95 % interval",
                "NME box %",
                "AUC box 7 %",
                "FR 10 %",
            ],
            rows=rows,
            note="LFPW was labelled by people, YTF by a model (labels moved by -1 px); FR is of "
            "the inter-ocular NME. LFPW's labels lie about a pixel right of where their mirror "
            "images' do (docs/data.md); the model was not taught that; the moved row is without "
            "it. No face was trained on, and no model was chosen on the LFPW faces.",
        ),
        CardTable(
            title="Calibration: labels inside the ellipse that should hold p",
            headings=["faces", *(f"{level:.0%}" for level in LEVELS)],
            rows=[
                covered(f"LFPW, detector's boxes, {len(crossed)} photographs", crossed),
                covered("rendered", distances(drawn)),
            ],
            note="Photographs: each half by factors that were fitted on the other half. Rendered "
            "faces: by the shipped factors. Visible landmarks only.",
        ),
        CardTable(
            title="Visibility: accuracy at 0.5",
            headings=["rendered faces", "n", "self-occluded", "visible"],
            rows=[
                seen("all poses", drawn, np.ones(len(drawn), bool)),
                seen("profile", drawn, profile(drawn)),
            ],
            note="Rendered faces that were not trained on; profile: more than a quarter of the "
            "landmarks self-occluded.",
        ),
    ]


def part(faces: EvaluatedFaces, chosen: NDArray[np.bool_]) -> EvaluatedFaces:
    return EvaluatedFaces(
        predicted=faces.predicted[chosen], truth=faces.truth[chosen], classes=faces.classes[chosen]
    )


def accuracy(name: str, faces: EvaluatedFaces) -> list[str]:
    if not len(faces):
        return [name, "0", "-", "-", "-", "-", "-"]
    ocular = nme(faces.predicted, faces.truth, "interocular", faces.visible)
    box = nme(faces.predicted, faces.truth, "box", faces.visible)
    interval = bootstrap(np.where(np.isfinite(ocular), ocular, 100.0))
    return [
        name,
        f"{len(faces)}",
        f"{interval.value:.2f}",
        f"{interval.low:.2f} to {interval.high:.2f}",
        f"{np.where(np.isfinite(box), box, 100.0).mean():.2f}",
        f"{auc(box, 7.0):.1f}",
        f"{failure_rate(ocular, 10.0):.1f}",
    ]


def distances(faces: EvaluatedFaces) -> Floats:
    found = ~faces.failed
    assert faces.covariance is not None
    return radii(
        faces.predicted[found], faces.covariance[found], faces.truth[found], faces.visible[found]
    )


def covered(name: str, distance: Floats) -> list[str]:
    shares = coverage(distance, "laplace").values()
    return [name, *(f"{100 * share:.1f} %" for share in shares)]


def profile(faces: EvaluatedFaces) -> NDArray[np.bool_]:
    return np.asarray((faces.classes == 0).mean(axis=1) > 0.25)


def seen(name: str, faces: EvaluatedFaces, chosen: NDArray[np.bool_]) -> list[str]:
    assert faces.visibility is not None
    called = faces.visibility[chosen] > 0.5
    classes = faces.classes[chosen]
    return [
        name,
        f"{chosen.sum()}",
        f"{(~called[classes == 0]).mean():.3f}",
        f"{called[classes > 0].mean():.3f}",
    ]


def speed(model: Path, onnx: Path) -> CardTable:
    """Seconds of the landmark stage for one face on one thread, and sizes of the files."""
    export_onnx(model, onnx)
    predictor = load(onnx, threads=1)
    side = predictor.info.config.input_size
    image = np.random.default_rng(0).integers(0, 256, (2 * side, 2 * side, 3), dtype=np.uint8)
    box = [[side / 2, side / 2, 1.5 * side, 1.5 * side]]
    seconds = []
    for _ in range(60):
        start = time.perf_counter()
        predictor.predict(image, box)
        seconds.append(time.perf_counter() - start)
    return CardTable(
        title="Speed and size",
        headings=["what", "figure"],
        rows=[
            ["landmarks of one face, one thread, median", f"{1000 * np.median(seconds):.1f} ms"],
            ["ONNX file", f"{onnx.stat().st_size / 1e6:.1f} MB"],
            ["safetensors file", f"{model.stat().st_size / 1e6:.1f} MB"],
        ],
        note="From a picture and a box, on an AMD EPYC server core with AVX2; the detector is not "
        "included. benchmarks/prediction.py has ratios.",
    )


def make_card(
    recipe: Recipe, model: Path, progress: str, calibrated_on: int, tables: list[CardTable]
) -> ModelCard:
    config = recipe.network
    network, info = load_model(model)
    count = sum(parameter.numel() for parameter in network.parameters())
    sources = {name: load_source(name, s, recipe.data) for name, s in recipe.data.sources.items()}
    titles = {
        "lfpw": "LFPW training photographs of 300-W, labelled by people; research use only",
        "ytf": "YouTube Faces video frames, research use only; first stage: labelled by another "
        "model; last stage: by this one",
        "ict": "faces rendered from the ICT FaceKit morphable head (MIT licence)",
        "worn": "the same heads with skin and backgrounds of the LFPW faces trained on; last stage",
    }
    return ModelCard(
        name=recipe.name,
        version=info["version"],
        summary="68 face landmarks with location, 2x2 covariance and visibility.",
        licence="Research use only, because two of the training sets allow no other use.",
        intended_use="Research: aligning faces in photographs and video, and knowing "
        "which landmarks to trust. Not for identifying people, and not as the only safeguard of a "
        "system on which safety depends.",
        limits=[
            "Real training faces look ahead or are turned by up to about 60 degrees; profiles were "
            "learnt from rendered heads, half of them with skin from photographs. On real profiles "
            "no labels were at hand: they were looked at, not measured.",
            "Visibility is about the head itself: a landmark behind a hand or hair counts as "
            "visible, with a larger ellipse.",
            "The uncertainty is that of labels on faces like the training faces; on other kinds of "
            "pictures (drawings, infrared, masks) it is not calibrated.",
            "The real faces are of public figures, from before 2012: people unlike them, children "
            "among others, are likely to be aligned less well.",
        ],
        data=[
            f"{titles.get(name, name)}: {len(s.train):,} faces, {len(s.held_out)} held out"
            for name, s in sources.items()
        ],
        recipe=f"recipes/{recipe.name}.yaml, {progress}",
        architecture=f"DU-Net, {config.unets} U-nets, {config.channels} channels, growth "
        f"{config.growth}, {config.input_size} px crops of {float(recipe.data.enlarge):g} boxes; "
        f"{count:,} parameters; Laplacian likelihood.",
        calibration=f"One factor for each landmark's covariance, fitted on {calibrated_on} "
        "held-out LFPW photographs.",
        tables=tables,
    )


def ship(model: Path, name: str, card: ModelCard) -> None:
    """The three files of a shipped model, into the package."""
    target = FOLDER / f"{name}.safetensors"
    target.write_bytes(model.read_bytes())
    found = export_onnx(target, FOLDER / f"{name}.onnx")
    write_text(FOLDER / f"{name}.json", card.model_dump_json(indent=1) + "\n")
    write_text(DOCS / f"{name}.md", card.markdown())
    print(f"shipped as {name}; ONNX differs from PyTorch by {found.pixels:.1g} px at most")


if __name__ == "__main__":
    main()
