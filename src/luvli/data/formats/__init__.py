"""Label files: one module for each format, `read_X` and `write_X` in each.

`.pts` holds one face and no image name, so `read_pts` gives `LabelledPoints`; all others
hold many faces and give lists of `FaceRecord`. `read_labels` and `write_labels` choose by
the name of the format or by what the file looks like.
"""

from luvli.data.formats.coco import read_coco, write_coco
from luvli.data.formats.csv import read_csv, write_csv
from luvli.data.formats.json import read_json, write_json
from luvli.data.formats.matlab import read_menpo_mat
from luvli.data.formats.pts import read_pts, write_pts
from luvli.data.formats.registry import (
    LABEL_FORMATS,
    get_format,
    guess_format,
    read_labels,
    write_labels,
)

__all__ = [
    "LABEL_FORMATS",
    "get_format",
    "guess_format",
    "read_coco",
    "read_csv",
    "read_json",
    "read_labels",
    "read_menpo_mat",
    "read_pts",
    "write_coco",
    "write_csv",
    "write_json",
    "write_labels",
    "write_pts",
]
