"""How far a face's labels lie beside it as a whole: the registration of labels and images.

    python benchmarks/label_registration.py --data DATA [--model luvli-68]

Measured on the faces that the model's recipe holds out. Of each face the mean of label minus
prediction is taken over eyes, nose and mouth, twice, over every second landmark each: errors of
single landmarks are not shared by the two halves, a shift of the whole face is. The root of
their covariance over the faces of a set is the shift's deviation along an axis. The model's own
shifts are part of it; how much, the sets tell whose labels were drawn on these very images.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli import load
from luvli.cli.tables import print_table
from luvli.models import find_model
from luvli.network import load_model
from luvli.training.recipe_files import make_recipe

sys.path.append(str(Path(__file__).parents[1] / "tools"))

INNER = np.arange(27, 68)
"""eyes, nose and mouth: landmarks that slide along nothing"""


def shift_deviation(offset: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2,) deviation of what all landmarks of a face share, in x and y, of offsets (n, k, 2)."""
    centred = offset - np.nanmedian(offset, axis=0)  # the convention of each landmark
    halves = [np.nanmean(centred[:, INNER[first::2]], axis=1) for first in (0, 1)]
    known = np.isfinite(halves).all(axis=(0, 2))
    shared = (halves[0][known] * halves[1][known]).mean(axis=0)
    return np.asarray(np.sqrt(np.maximum(shared, 0.0)), np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="data.root of the model's recipe")
    parser.add_argument("--model", default="luvli-68")
    options = parser.parse_args()
    if options.data is None:
        print("no data given: nothing to measure")
        return
    from measure_model import evaluated, held_out, predict
    from release_model import with_root

    recipe = make_recipe(load_model(find_model(options.model, "torch"))[1]["recipe"], options.model)
    held = held_out(with_root(recipe, str(options.data)))
    faces = evaluated(held, predict(load(options.model), held.records, "detector"))
    box = np.stack([record.tight_box for record in held.records])
    size = np.sqrt((box[:, 2:] - box[:, :2]).prod(axis=1))
    offset = 100 * (faces.labels - faces.points) / size[:, None, None]
    offset = np.where(faces.visible[..., None], offset, np.nan)
    rows = []
    for name, part in held.parts().items():
        there = part & ~faces.failed
        x, y = shift_deviation(offset[there])
        rows.append([name, f"{there.sum():,}", f"{x:.2f}", f"{y:.2f}"])
    title = "labels of a face beside its prediction, as a whole: deviation, % of the box"
    print_table(["faces", "n", "x", "y"], rows, title)


if __name__ == "__main__":
    main()
