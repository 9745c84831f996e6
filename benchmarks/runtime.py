"""What the options of ONNX Runtime, 8 bits and OpenVINO give, all in one run.

    python benchmarks/runtime.py                     one thread, about a minute
    python benchmarks/runtime.py --photographs DIR   sets the 8-bit ranges on faces in a folder

Each variant runs one crop; all of them are taken in turns. Times are processor time, so that
other work on the machine counts little; "ratio" is to the session that `luvli` opens, and
"points" is how far the landmarks move at most, in pixels of the crop. OpenVINO takes part when
its package is installed; it stays out of the dependencies.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from luvli.prediction.second_look import first_view
from numpy.typing import NDArray

from luvli.cli.tables import print_table
from luvli.errors import require
from luvli.image import read_image
from luvli.image.read import ImageArray
from luvli.models import find_model
from luvli.network.backend import INPUT, OUTPUTS
from luvli.prediction.inputs import Inputs
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.quantize import QUANTIZING_FACES, quantize

Run = Callable[[ImageArray], NDArray[np.floating]]
"""crops (B, S, S, 3) -> points (B, k, 2)"""


class Variant(NamedTuple):
    """One way to run the network."""

    run: Run
    load_seconds: float
    about: str = ""


def session(model: str | bytes, **settings: Any) -> Variant:
    """ONNX Runtime with settings of its `SessionOptions`, one thread unless they say otherwise."""
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    for name, value in settings.items():
        setattr(options, name, value)
    start = time.process_time()
    opened = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    seconds = time.process_time() - start
    return Variant(lambda crops: opened.run([OUTPUTS[0]], {INPUT: crops})[0], seconds)


def operators(path: Path) -> str:
    """What an optimised graph consists of: convolutions by kind, and what was not fused."""
    onnx: Any = importlib.import_module("onnx")
    nodes = onnx.load(path, load_external_data=False).graph.node
    kinds = Counter(f"{node.domain}.{node.op_type}".lstrip(".") for node in nodes)
    wanted = ("Conv", "BatchNormalization", "Reorder", "Relu", "Add", "Concat")
    parts = {kind: n for kind, n in kinds.items() if any(word in kind for word in wanted)}
    return ", ".join(f"{n} {kind.rpartition('.')[2]}" for kind, n in sorted(parts.items()))


def openvino(path: str) -> Variant:
    """OpenVINO's own runtime on the same file."""
    package: Any = importlib.import_module("openvino")
    start = time.process_time()
    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = package.Core().compile_model(path, "CPU", settings)
    request, output = compiled.create_infer_request(), compiled.output(OUTPUTS[0])

    def run(crops: ImageArray) -> NDArray[np.floating]:
        return np.array(request.infer({INPUT: crops})[output])

    return Variant(run, time.process_time() - start, f"OpenVINO {package.__version__[:20]}")


def variants(path: str, place: Path, crops: list[ImageArray]) -> dict[str, Variant]:
    """Every way, by name; the first is what `luvli` does."""
    runtime: Any = importlib.import_module("onnxruntime")
    levels = runtime.GraphOptimizationLevel
    saved, extended = place / "all.onnx", place / "extended.onnx"
    made = {"as luvli opens it (all optimisations)": session(path)}
    session(path, optimized_model_filepath=str(saved))
    made["no layout NCHWc (extended)"] = session(
        path, graph_optimization_level=levels.ORT_ENABLE_EXTENDED,
        optimized_model_filepath=str(extended),
    )._replace(about=operators(extended))  # fmt: skip
    made["basic optimisations"] = session(path, graph_optimization_level=levels.ORT_ENABLE_BASIC)
    made["none"] = session(path, graph_optimization_level=levels.ORT_DISABLE_ALL)
    made["optimised graph, saved once"] = session(
        str(saved), graph_optimization_level=levels.ORT_DISABLE_ALL
    )._replace(about=operators(saved))
    made["without memory arena"] = session(path, enable_cpu_mem_arena=False)
    made["two threads for one face"] = session(path, intra_op_num_threads=2)
    if crops:
        quantize(path, place / "int8.onnx", crops)
        made["8 bits"] = session(str(place / "int8.onnx"))
    if importlib.util.find_spec("openvino"):
        made["OpenVINO"] = openvino(path)
    return made


def measure(ways: dict[str, Variant], crop: ImageArray, turns: int) -> list[list[str]]:
    """A row for each way; all are taken in turns."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    answers = {name: way.run(crop) for name, way in ways.items()}
    for _ in range(turns):
        for name, way in ways.items():
            start = time.process_time()
            way.run(crop)
            spent[name].append((time.process_time() - start) * 1e3)
    first = next(iter(ways))
    rows = []
    for name, way in ways.items():
        best, median = min(spent[name]), float(np.median(spent[name]))
        moved = float(np.abs(answers[name] - answers[first]).max())
        rows.append(
            [
                name,
                f"{best:.2f} ({median:.2f})",
                f"{best / min(spent[first]):.2f} ({median / np.median(spent[first]):.2f})",
                f"{way.load_seconds * 1e3:.0f}",
                f"{moved:.2g}",
                way.about,
            ]
        )
    return rows


def face_crops(predictor: Predictor, folder: str | None) -> tuple[ImageArray, list[ImageArray]]:
    """The crop to measure with (1, S, S, 3), and crops for the 8-bit ranges."""
    astronaut = read_image(require("skimage.data", "demo").astronaut())
    cut = predictor.prepare(astronaut).pixels[0]
    crop = first_view(cut, predictor.info.config.input_size)[None]
    crops: list[ImageArray] = []
    for item in Inputs([folder]) if folder else ():
        crops += predictor.prepare(item.path).pixels
        if len(crops) >= QUANTIZING_FACES:
            break
    return crop, crops[:QUANTIZING_FACES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="luvli-68")
    parser.add_argument("--photographs", help="folder with faces for the 8-bit ranges")
    parser.add_argument("--turns", type=int, default=40)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    predictor = load(options.model, threads=1)
    crop, crops = face_crops(predictor, options.photographs)
    with tempfile.TemporaryDirectory() as place:
        ways = variants(str(find_model(options.model, "onnx")), Path(place), crops)
        header = ["", "ms (median)", "ratio", "load ms", "points", "graph"]
        rows = measure(ways, crop, options.turns)
        print_table(header, rows, title="one face, processor time")


if __name__ == "__main__":
    main()
