"""Measures with error bars on held-out faces: do 68 and 95 % intervals hold 68 and 95 %?

    python benchmarks/measures.py DATA [--model luvli-68]

DATA is that of benchmarks/trust.py, with closed_eyes/. Faces are those that recipes/luvli-68.yaml
holds out, and of closed_eyes/ all; everything is fitted on one half of the photographs and measured
on the other.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from trust import held_out, measure

from luvli import load
from luvli.calibration.calibrate import fit_calibration, in_first_part
from luvli.calibration.fit_measures import fit_measures
from luvli.calibration.measure import calibrated, with_calibration
from luvli.calibration.model_file import ModelFile
from luvli.calibration.report import measures_table
from luvli.cli.output import print_result
from luvli.data.cache import cache_root
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.sets import load_set
from luvli.evaluation.evaluate_model import predict_records
from luvli.models import find_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--model", default="luvli-68")
    options = parser.parse_args()
    if options.data is None:
        print("no data given: nothing to measure")
        return
    model = ModelFile.read(find_model(options.model))
    bare = model.with_info(calibration=None, trust=None, measures=None)
    with bare.predictor() as predictor:
        faces = measure(predictor, held_out(options.data), 0)
        records = load_set("closed_eyes", options.data / "closed_eyes").records
        boxed = with_detector_boxes(records, cache_root())
        shut = predict_records(predictor, boxed, refine_boxes=True).faces
    first = in_first_part(faces.groups["photograph"])
    calibration = fit_calibration(faces[first])
    faces, shut = with_calibration(faces, calibration), calibrated(shut, calibration)
    measures = fit_measures(faces[first], shut[::2])
    print(options.model)
    print_result(measures_table(faces[~first], measures, shut[1::2]))
    shipped = load(options.model).info.measures
    print("in the model file:", "none" if shipped is None else shipped.eyes_closed)


if __name__ == "__main__":
    main()
