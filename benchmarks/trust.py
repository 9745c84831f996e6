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
from pathlib import Path

import numpy as np

from luvli import load
from luvli.calibration.calibrate import fit_calibration, fit_trust, in_first_part
from luvli.calibration.covariance import coverage_by_level
from luvli.calibration.fit_failure_model import fit_failure_model
from luvli.calibration.measure import (
    evenly,
    face_errors,
    is_plain,
    label_radii,
    measure_faces,
    with_calibration,
)
from luvli.calibration.report import triage_table
from luvli.cli.output import print_result, print_table
from luvli.data.cache import cache_root
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.record import FaceRecord
from luvli.data.sets import load_set
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.selective import auroc
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
        print(f"{info.name} {info.version}\n")
        print_result(triage_table(info.trust.triage))
    if options.keep is not None and options.keep.is_file():
        measured, further = pickle.loads(options.keep.read_bytes())
    elif options.data is not None:
        measured, further = predict(predictor, options.data)
        if options.keep is not None:
            options.keep.write_bytes(pickle.dumps((measured, further)))
    else:
        return
    fitted = fit_trust(measured, SUCCESS, further=further)
    print_result(*fitted.tables)
    left_out_table(with_calibration(measured, fitted.calibration))
    coverage_table(measured[is_plain(measured)], further)


def predict(predictor: Predictor, data: Path) -> tuple[LabelledFaces, LabelledFaces]:
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


def measure(predictor: Predictor, records: list[FaceRecord], corrupted: int) -> LabelledFaces:
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
    return measured.with_predictions(covariance=covariance, likelihood=likelihood, regions=None)


def left_out_table(measured: LabelledFaces) -> None:
    """Each kind of corruption by a failure model that was fitted without it."""
    first, plain = in_first_part(measured.groups["photograph"]), is_plain(measured)
    rows = []
    for kind in np.unique(measured.groups["corruption"][~plain]).tolist():
        own = measured.groups["corruption"] == kind
        model = fit_failure_model(measured[first & ~own], SUCCESS)
        test = measured[~first & (own | plain)]
        confidence, _ = model(test.faces)
        of_kind, failed = ~is_plain(test), face_errors(test) >= SUCCESS
        compared = of_kind == failed
        values = confidence[of_kind]
        shares = (values > 0.5, values > 0.1, failed[of_kind] & (values > 0.5))
        area = auroc(1 - confidence[compared], of_kind[compared])
        cells = [f"{len(values):,}", f"{failed[of_kind].mean():.0%}", f"{area:.3f}"]
        rows.append([kind, *cells, *(f"{share.mean():.0%}" for share in shares)])
    heads = ["left out", "n", "failed", "AUROC", "above 0.5", "above 0.1", "failed and above 0.5"]
    print_table(heads, rows, title="corruptions left out of the fit; AUROC against plain successes")


def coverage_table(plain: LabelledFaces, further: LabelledFaces) -> None:
    """Coverage of each source, left out of the fit and in it (other half of the photographs)."""
    first = in_first_part(plain.groups["photograph"])
    calibration = fit_calibration(plain[first], further)
    rest = with_calibration(plain[~first], calibration)
    rows = []
    for name in np.unique([*plain.groups["source"], *further.groups["source"]]).tolist():
        of_plain, of_further = (f.groups["source"] == name for f in (plain, further))
        part = plain[of_plain] if of_plain.any() else further[of_further]
        others = fit_calibration(plain[~of_plain], further[~of_further])
        alone = others.model_copy(update={"convention_variance": []})
        fits = [with_calibration(part, others), with_calibration(part, alone)]
        fits.append(rest[rest.groups["source"] == name])
        cells = [f"{len(part):,}"]
        for faces in fits:
            held = coverage_by_level(label_radii(faces), faces.likelihood) if len(faces) else {}
            cells.append(" / ".join(f"{100 * share:.0f}" for share in held.values()))
        rows.append([name, *cells])
    heads = ["source", "faces", "left out", "without convention", "in the fit"]
    print_table(heads, rows, title="coverage of the 50 / 80 / 95 % ellipses, %")


if __name__ == "__main__":
    main()
