"""What a newcomer has: photographs, a clip, labelled faces; nothing from a data set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import luvli
import luvli.models
from luvli.data.formats import write_json, write_pts
from luvli.data.record import FaceRecord
from luvli.image.write import write_image

CORNER = (160, 60, 380, 280)
"""the part of the astronaut's photograph that holds the face: x0, y0, x1, y1"""


@pytest.fixture(scope="session")
def newcomer_folder(astronaut: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photographs and a clip, labelled faces, predictions and models of one's own."""
    av = pytest.importorskip("av")
    folder = tmp_path_factory.mktemp("newcomer")
    x0, y0, x1, y1 = CORNER
    small = np.ascontiguousarray(astronaut[:360])
    write_image(folder / "photo.jpg", small)
    write_image(folder / "photos/a.jpg", small)
    write_image(folder / "photos/b.jpg", np.ascontiguousarray(small[:, ::-1]))
    write_image(folder / "photos/no-face.png", np.full((64, 64, 3), 90, np.uint8))
    (face,) = luvli.load("luvli-68", threads=1).predict(small)
    records = []
    for number in range(24):
        name = f"{'abcdefgh'[number % 8]}_{number}"
        write_image(folder / f"faces/{name}.jpg", small)
        write_pts(folder / f"faces/{name}.pts", face.points)
        records.append(FaceRecord.from_landmarks(face, Path(f"faces/{name}.jpg")))
    write_json(folder / "faces.json", records[:4])
    _evaluation(folder, face.points, [path.stem for path in sorted(folder.glob("faces/*.pts"))[:8]])
    _own_models(folder)
    with av.open(str(folder / "clip.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = x1 - x0, y1 - y0, "yuv420p"
        for shift in range(8):
            image = np.ascontiguousarray(astronaut[y0:y1, x0 - shift : x1 - shift])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    (folder / "boxes.json").write_text(json.dumps({"photo.jpg": [face.box.tolist()]}))
    return folder


def _evaluation(folder: Path, points: NDArray[np.float64], names: list[str]) -> None:
    """Labels apart from the images, and what somebody's method says about these faces."""
    rng = np.random.default_rng(0)
    for name in names:
        write_pts(folder / f"labels/{name}.pts", points)
    truth = np.repeat(points[None], len(names), axis=0)
    covariance = np.tile(4.0 * np.eye(2), (len(names), 68, 1, 1))
    predicted = truth + rng.normal(0, 2, truth.shape)
    images = np.array([f"{name}.jpg" for name in names])
    np.save(folder / "labels.npy", truth)
    np.savez(folder / "mine.npz", landmarks=predicted, covariance=covariance, imgpath=images)
    np.savez(folder / "held-out.npz", mean=predicted, covariance=covariance, truth=truth,
             visible=np.ones(truth.shape[:2], bool))  # fmt: skip
    (folder / "labels.json").write_text(
        json.dumps({f"{name}.jpg": points.tolist() for name in names})
    )
    columns = [f"{axis}_{i}" for axis in "xy" for i in range(68)]
    rows = [",".join(["image", *columns])]
    for name, face in zip(images, predicted, strict=True):
        rows.append(",".join([str(name), *(f"{value:.2f}" for value in face.T.ravel())]))
    (folder / "predictions.csv").write_text("\n".join(rows) + "\n")
    (folder / "mine.py").write_text(
        "import numpy as np\n\n\ndef predict(image, box):\n"
        "    return np.array(box[:2]) + (np.array(box[2:]) - box[:2]) * np.random.rand(68, 2)\n"
    )


def _own_models(folder: Path) -> None:
    """The shipped model in the places of one that somebody trained and exported."""
    shipped = Path(luvli.models.__file__).parent
    (folder / "runs/mine").mkdir(parents=True)
    for name in ("mine.safetensors", "runs/mine/model.safetensors"):
        (folder / name).symlink_to(shipped / "luvli-68.safetensors")
    (folder / "mine.onnx").symlink_to(shipped / "luvli-68.onnx")
