"""How far confidence, ellipses, triage and label audit can be trusted: docs/trust.md.

    python benchmarks/trust.py luvli-68                                what the model file holds
    python benchmarks/trust.py luvli-68 --data DATA --keep held.npz    and all tables
    python benchmarks/trust.py luvli-68 --keep held.npz                again, without predicting

The faces are those that recipes/luvli-68.yaml holds out, plain and in three corrupted versions; for
the label convention also faces of CFP and SCUT-FBP5500, which no model was trained on. Every
figure is of faces that the fit has not seen: of the other half of the photographs, of a kind of
corruption that was left out, of a source that was left out.
"""

from __future__ import annotations

import argparse
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np

from luvli import load
from luvli.calibration.audit import ERROR_KINDS, audit
from luvli.calibration.calibrate import fit_calibration, fit_trust, in_first_part
from luvli.calibration.covariance import coverage
from luvli.calibration.fit_failure_model import fit_failure_model
from luvli.calibration.label_batches import LabelBatch, LabelSource
from luvli.calibration.label_errors import inject_errors
from luvli.calibration.measure import MeasuredFaces, measure_faces
from luvli.calibration.report import triage_table
from luvli.calibration.sampling import evenly
from luvli.cli.output import print_table
from luvli.data.cache import cache_root
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.record import FaceRecord
from luvli.data.sets import load_set
from luvli.evaluation.visibility import auroc
from luvli.network.model_info import ModelInfo
from luvli.prediction.predictor import Predictor
from luvli.progress import track

RECIPE = Path(__file__).parents[1] / "recipes" / "luvli-68.yaml"
SUCCESS = 5.0
FURTHER = {"cfp": "cfp", "scut": "scut_fbp5500"}
"""sets that only the label convention is estimated from -> their folders below DATA"""
FURTHER_FACES = 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", help="a shipped model's name, or a file")
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--keep", type=Path, help="file for the predictions")
    options = parser.parse_args()
    if options.model is None:
        print("no model given: nothing to measure")
        return
    predictor = load(options.model, threads=1)
    info = predictor.info
    if info.trust is not None and info.trust.triage is not None:
        title, heads, rows = triage_table(info.trust.triage)
        print_table(heads, rows, title=f"{info.name} {info.version}: {title}")
    if options.keep is not None and options.keep.is_file():
        measured, further = pickle.loads(options.keep.read_bytes())
    elif options.data is not None:
        measured, further = predict(predictor, options.data)
        if options.keep is not None:
            options.keep.write_bytes(pickle.dumps((measured, further)))
    else:
        return
    fitted = fit_trust(measured, info.config, SUCCESS, further=further)
    for title, heads, rows in fitted.tables:
        print_table(heads, rows, title=title)
    left_out_table(measured.calibrated(fitted.calibration))
    coverage_tables(measured[measured.plain], further, info)
    audit_table(measured[measured.plain].calibrated(fitted.calibration))


def predict(predictor: Predictor, data: Path) -> tuple[MeasuredFaces, MeasuredFaces]:
    """Held-out and further faces with covariances as the network gives them."""
    others = [
        record
        for name, folder in FURTHER.items()
        for record in evenly(load_set(name, data / folder, skip_bad=True).records, FURTHER_FACES)
    ]
    return measure(predictor, held_out(data), 3), measure(predictor, others, 0)


def held_out(data: Path) -> list[FaceRecord]:
    """The held-out photographs of the recipe, with their labels as published."""
    from luvli.training.recipe_files import read_recipe
    from luvli.training.sources import load_source

    recipe = read_recipe(RECIPE, [f"data.root={data}"])
    published = {"offset": (0.0, 0.0), "boxes": "labels", "relabel": None}
    return [
        record
        for name, source in recipe.data.sources.items()
        if source.set is not None
        for record in load_source(
            name, source.model_copy(update=published), recipe.data, recipe.network
        ).held_out
    ]


def measure(predictor: Predictor, records: list[FaceRecord], corrupted: int) -> MeasuredFaces:
    detected = with_detector_boxes(records, cache_root())
    measured = measure_faces(
        predictor, detected, corrupted, progress=lambda r: track(r, "faces", unit="faces")
    )
    calibration = predictor.info.calibration
    if calibration is None:
        return measured
    faces = measured.faces
    covariance = calibration.undo(faces.covariance, faces.occlusion, faces.points)
    likelihood = predictor.info.config.likelihood
    return replace(
        measured,
        faces=replace(faces, covariance=covariance, likelihood=likelihood, regions=None),
    )


def left_out_table(measured: MeasuredFaces) -> None:
    """Each kind of corruption by a failure model that was fitted without it."""
    first = in_first_part(measured.photograph)
    rows = []
    for kind in np.unique(measured.corruption[~measured.plain]).tolist():
        own = measured.corruption == kind
        model = fit_failure_model(measured[first & ~own], SUCCESS)
        test = measured[~first & (own | measured.plain)]
        confidence, _ = model(test.faces)
        of_kind, failed = test.corruption == kind, test.error >= SUCCESS
        compared = (of_kind & failed) | (~of_kind & ~failed)
        values = confidence[of_kind]
        rows.append(
            [
                kind,
                f"{int(of_kind.sum()):,}",
                f"{failed[of_kind].mean():.0%}",
                f"{auroc(1 - confidence[compared], of_kind[compared]):.3f}",
                f"{np.mean(values > 0.5):.0%}",
                f"{np.mean(values > 0.1):.0%}",
                f"{np.mean(failed[of_kind] & (values > 0.5)):.0%}",
            ]
        )
    heads = ["left out", "n", "failed", "AUROC", "above 0.5", "above 0.1", "failed and above 0.5"]
    print_table(heads, rows, title="corruptions left out of the fit; AUROC against plain successes")


def coverage_tables(plain: MeasuredFaces, further: MeasuredFaces, info: ModelInfo) -> None:
    """Coverage of each source, left out of the fit and in it (other half of the photographs)."""
    names = [str(name) for name in np.unique(plain.source) if (plain.source == name).sum() >= 30]
    known, first = {}, in_first_part(plain.photograph)
    calibration = fit_calibration(plain[first], info.config, further)
    rest = plain[~first].calibrated(calibration)
    for name in names:
        known[name] = coverage(rest[rest.source == name].radii(), calibration.likelihood or "")
    rows = []
    for name in dict.fromkeys([*names, *np.unique(further.source).tolist()]):
        part = plain if name in names else further
        others = fit_calibration(
            plain[plain.source != name], info.config, further[further.source != name]
        )
        alone = others.model_copy(update={"convention_variance": []})
        held = [
            coverage(part[part.source == name].calibrated(c).radii(), c.likelihood or "")
            for c in (others, alone)
        ]
        cells = [*held, known.get(name)]
        rows.append(
            [
                name,
                f"{int((part.source == name).sum()):,}",
                *("" if c is None else " / ".join(f"{100 * v:.0f}" for v in c.values())
                  for c in cells),
            ]
        )  # fmt: skip
    heads = ["source", "faces", "left out", "without convention", "in the fit"]
    print_table(heads, rows, title="coverage of the 50 / 80 / 95 % ellipses, %")


def audit_table(plain: MeasuredFaces, seeds: int = 5) -> None:
    """Average precision of the audit, with errors put into 3 % of the labels."""
    faces = list(plain.faces)
    records = [
        FaceRecord(points=points, visibility=classes, face_id=str(i), dataset="held out")
        for i, (points, classes) in enumerate(
            zip(plain.labels, plain.label_visibility, strict=True)
        )
    ]
    values: dict[str, list[float]] = {kind: [] for kind in ("all", *ERROR_KINDS)}
    for seed in range(seeds):
        wrong_records, wrong = inject_errors(records, 0.03, seed)
        batch = LabelBatch.of(wrong_records, faces)
        suspects = [item.suspect for item in audit([_in_memory(batch)], listed=None).listed]
        kinds = np.array([wrong.get(suspect.index, "") for suspect in suspects])
        for kind in values:
            part = kinds != "" if kind == "all" else kinds == kind
            if part.any():
                compared = part | (kinds == "")
                ordered = part[compared]
                precision = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
                values[kind].append(float(precision[ordered].mean()))
    rows = [[kind, f"{np.mean(scores):.2f}"] for kind, scores in values.items() if scores]
    title = f"label audit, {len(records):,} faces: average precision"
    print_table(["errors", "precision"], rows, title=title)


def _in_memory(batch: LabelBatch) -> LabelSource:
    return LabelSource(Path(), lambda: [batch])


if __name__ == "__main__":
    main()
