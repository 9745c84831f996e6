"""Everything that reads a file of somebody else, with a good file of each kind.

A reader answers, or raises `InputError`; anything else, and any wait, is a failure.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from hostile.crafted import (
    lying_tar,
    names,
    parquet_of_any_types,
    predict_parquet,
    read_film,
    script,
    write_image_column,
    write_names,
    write_under_names,
)
from hostile.label_readers import label_readers, write_predicted
from hostile.mutate import BINARY, JSON, TEXT, lines, numbers
from hostile.reader import FACES, Reader, encoded, photograph
from hostile.server_requests import crafted, send_request, write_request
from luvli.data.sets.folder import read_markup
from luvli.errors import InputError
from luvli.files import whole_file
from luvli.image.crop import Crop
from luvli.image.known_boxes import BoxesFromFile
from luvli.image.photograph import Photograph
from luvli.image.read import read_image
from luvli.image.source import image_size
from luvli.prediction.containers import tar_parts
from luvli.prediction.inputs import Input
from luvli.prediction.predictor import load
from luvli.prediction.read_results import read as read_results
from luvli.prediction.settings import JobSettings, drawn_suffix
from luvli.prediction.video import VideoReader
from luvli.prediction.video_writer import VideoWriter
from luvli.training.recipe_files import read_recipe

RECIPE = Path(__file__).parents[2] / "recipes/quick.yaml"
MARKUP = """
name: mine5
points: [right eye, left eye, nose, right mouth, left mouth]
outer_eye_corners: [0, 1]
parts: {mouth: [3, 4]}
closed: []
groups: {eyes: [0, 1], nose: [2], mouth: [3, 4]}
eyes: [[0], [1]]
"""


# -- images and boxes --------------------------------------------------------------------------


def write_picture(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # on its side
    Image.fromarray(photograph()).save(path, exif=exif)


def read_picture(path: Path) -> None:
    image_size(path)
    image = read_image(path)
    assert image.dtype == np.uint8 and image.shape[2] == 3
    Photograph(path).overview(32)


def write_boxes(path: Path) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps({f"image-{i}.jpg": [[20, 20, 110, 110]] for i in range(FACES)}))
    else:
        rows = "".join(f"image-{i}.jpg,20,20,110,110,0.9\n" for i in range(FACES))
        path.write_text(f"image,x0,y0,x1,y1,score\n{rows}")


def read_boxes(path: Path) -> None:
    boxes = BoxesFromFile(path)
    for i in range(FACES):
        for box in boxes(photograph(), f"image-{i}.jpg"):
            Crop.from_box(box, 64, 1.2).warp(photograph())


# -- models ------------------------------------------------------------------------------------


def tiny_network(**changes: Any) -> Any:
    import torch

    from luvli.network import build
    from luvli.network.config import NetworkConfig

    torch.manual_seed(0)
    sizes: Any = {"unets": 1, "channels": 4, "bn_size": 1, "growth": 2, "input_size": 64}
    return build(NetworkConfig(**sizes, **changes)).eval()


def write_model(path: Path) -> None:
    """A `.safetensors`, and beside it an `.onnx` if that is wanted."""
    from luvli.network import save_model
    from luvli.prediction.export import export_onnx

    weights = path.with_suffix(".safetensors")
    save_model(weights, tiny_network(), {"enlarge": 1.25, "calibration": {"scale": [1.5] * 68}})
    if path.suffix == ".onnx":
        export_onnx(weights, path)


def read_model(path: Path) -> None:
    faces = load(path, threads=1).predict(photograph(), [[10, 10, 40, 40]])
    assert np.isfinite(faces[0].points).all() and np.isfinite(faces[0].covariance).all()


def write_official(path: Path) -> None:
    import torch

    from luvli.network.official import to_official

    torch.save({"state_dict": to_official(tiny_network(order=0, reference=True))}, path)


def read_official(path: Path) -> None:
    from luvli.network import load_official, save_model

    network, info = load_official(path)
    save_model(path.with_name("imported.safetensors"), network, info)


def write_checkpoint(path: Path) -> None:
    import torch

    from luvli.training.checkpoint import save_checkpoint

    state = {"network": {"a": torch.ones(9)}, "step": 7}
    save_checkpoint(path.parent, 7, state, keep=3).replace(path)


def read_checkpoint(path: Path) -> None:
    from luvli.training.checkpoint import load_checkpoint

    load_checkpoint(path)


# -- videos, uploads, archives -------------------------------------------------------------------


def write_film(path: Path) -> None:
    from prediction.conftest import disc_image, write_video

    frames = ((i / 30, disc_image([(40.0 + i, 40, 20)], (96, 80))) for i in range(12))
    write_video(path, frames, sound=path.suffix == ".mp4", codec="libx264")


def copy_film(path: Path) -> None:
    reader = VideoReader(path)
    target = path.with_name(f"copy{drawn_suffix(str(path))}")
    with whole_file(target) as made, VideoWriter(made, reader.rate, path) as writer:
        for number, frame in enumerate(reader):
            if number == 40:
                break  # repeated packets can be many
            writer.write(frame.image, frame.time)


def write_upload(path: Path) -> None:
    """What a client sends to the server: a form with two images and boxes."""
    body = b""
    for number, format in enumerate(("JPEG", "PNG")):
        head = f'Content-Disposition: form-data; name="f{number}"; filename="{number}.jpg"'
        body += b"--cut\r\n" + head.encode() + b"\r\n\r\n" + encoded(format) + b"\r\n"
    boxes = b'Content-Disposition: form-data; name="boxes"\r\n\r\n[[[1, 2, 30, 40]], []]\r\n'
    path.write_bytes(body + b"--cut\r\n" + boxes + b"--cut--\r\n")


def read_upload(path: Path) -> None:
    from starlette.datastructures import Headers

    from luvli.serving.schema import parse_boxes
    from luvli.serving.settings import Limits
    from luvli.serving.upload import read_upload as read_body

    limits = Limits()
    kind = Headers({"content-type": "multipart/form-data; boundary=cut"})
    upload = read_body(kind, path.read_bytes(), limits)
    if upload.boxes:
        parse_boxes(upload.boxes, len(upload.images), limits.max_faces)
    for image in upload.images:
        if isinstance(image.source, InputError):
            raise image.source
        read_image(image.source)


def write_tar(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for number in range(FACES):
            about = tarfile.TarInfo(f"{number}.png")
            about.size = len(encoded("PNG"))
            tar.addfile(about, io.BytesIO(encoded("PNG")))


def read_tar(path: Path) -> None:
    for part in tar_parts([Input(str(path), path.name)], JobSettings("out")):
        for _, data in part.contents(0):
            if isinstance(data, InputError):
                raise data
            read_image(data)


def all_readers() -> dict[str, Reader]:
    """By name."""
    pictures = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "ICO")
    model = (*BINARY, numbers)
    found = [
        *(Reader(f"image {f}", f".{f.lower()}", write_picture, read_picture) for f in pictures),
        *label_readers(),
        Reader("boxes csv", ".csv", write_boxes, read_boxes, TEXT),
        Reader("boxes json", ".json", write_boxes, read_boxes, JSON),
        Reader("model onnx", ".onnx", write_model, read_model, model),
        Reader("model safetensors", ".safetensors", write_model, read_model, model),
        Reader("official", ".pth.tar", write_official, read_official),
        Reader("checkpoint", ".ckpt", write_checkpoint, read_checkpoint),
        Reader("recipe", ".yaml", lambda p: p.write_bytes(RECIPE.read_bytes()), read_recipe, TEXT),
        Reader("markup.yaml", ".yaml", lambda p: p.write_text(MARKUP), read_markup, TEXT),
        *(Reader(f"video {s[1:]}", s, write_film, copy_film) for s in (".mp4", ".mkv", ".avi")),
        Reader("upload to the server", ".form", write_upload, read_upload, (*BINARY, lines)),
        Reader("tar of images", ".tar", write_tar, read_tar),
        Reader("request to the server", ".request", write_request, send_request, (crafted,)),
        Reader("job parquet types", ".parquet", write_image_column, predict_parquet,
               (parquet_of_any_types,)),
        Reader("read parquet types", ".parquet", write_predicted("parquet"), read_results,
               (parquet_of_any_types,)),
        Reader("lying tar", ".tar", write_tar, read_tar, (lying_tar,)),
        Reader("video scripts", ".mkv", write_film, read_film, (script,)),
        Reader("names of images", ".json", write_names, write_under_names, (names,)),
    ]  # fmt: skip
    return {reader.name: reader for reader in found}
