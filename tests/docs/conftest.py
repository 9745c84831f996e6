"""What a newcomer has: photographs, a clip, labelled faces; nothing from a data set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from luvli.data.formats import write_json, write_pts
from luvli.data.record import FaceRecord
from luvli.image.write import write_image

CORNER = (160, 60, 380, 280)
"""the part of the astronaut's photograph that holds the face: x0, y0, x1, y1"""


@pytest.fixture(scope="session")
def newcomer_folder(astronaut: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """photo.jpg, photos/, clip.mp4, faces/ with .pts and faces.json, and the examples."""
    av = pytest.importorskip("av")
    import luvli

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
    with av.open(str(folder / "clip.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = x1 - x0, y1 - y0, "yuv420p"
        for shift in range(8):
            image = np.ascontiguousarray(astronaut[y0:y1, x0 - shift : x1 - shift])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    (folder / "boxes.json").write_text(json.dumps({"photo.jpg": [face.box.tolist()]}))
    return folder
