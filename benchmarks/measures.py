"""Measures with error bars on held-out faces: do 68 and 95 % intervals hold 68 and 95 %?

    python benchmarks/measures.py DATA [--model luvli-68]

DATA is that of benchmarks/trust.py, with closed_eyes/. Faces are those that recipes/luvli-68.yaml
holds out, and of closed_eyes/ all; everything is fitted on one half of the photographs and measured
on the other.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from trust import held_out, measure

from luvli import load
from luvli.calibration.calibrate import fit_all_measures, fit_calibration, in_first_part
from luvli.calibration.measure import calibrated, predict_faces
from luvli.calibration.model_file import ModelFile
from luvli.calibration.report import measures_table
from luvli.cli.output import print_table
from luvli.data.cache import cache_root
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.sets import load_set
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
    info = model.info.model_copy(update=dict.fromkeys(("calibration", "trust", "measures")))
    with replace(model, info=info).predictor() as predictor:
        faces = measure(predictor, held_out(options.data), 0)
        records = load_set("closed_eyes", options.data / "closed_eyes").records
        shut = predict_faces(predictor, with_detector_boxes(records, cache_root()))
    first = in_first_part(faces.photograph)
    calibration = fit_calibration(faces[first], info.config)
    faces, shut = faces.calibrated(calibration), calibrated(shut, calibration)
    measures = fit_all_measures(faces[first], shut[::2])
    title, heads, rows = measures_table(faces[~first], measures, shut[1::2])
    print_table(heads, rows, title=f"{options.model}: {title}")
    shipped = load(options.model).info.measures
    print("in the model file:", "none" if shipped is None else shipped.eyes_closed)


if __name__ == "__main__":
    main()
