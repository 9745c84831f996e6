"""Everything that reads a file of somebody else, with a good file of each kind.

A reader answers, or raises `InputError`; anything else, and any wait, is a failure.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from hostile import mutate
from hostile.label_readers import label_readers
from hostile.reader import FACES, Reader, encoded, photograph
from hostile.server_requests import request_reader

# -- images ------------------------------------------------------------------------------------


def _image(format: str) -> Reader:
    from PIL import Image

    from luvli.image.photograph import Photograph
    from luvli.image.read import read_image
    from luvli.image.source import image_size

    def make(path: Path) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        extra = {"exif": exif} if format in ("JPEG", "PNG", "WEBP", "TIFF") else {}
        Image.fromarray(photograph()).save(path, format, **extra)

    def read(path: Path) -> None:
        image_size(path)
        image = read_image(path)
        assert image.dtype == np.uint8 and image.shape[2] == 3
        Photograph(path).overview(32)

    return Reader(f"image {format}", f".{format.lower()}", make, read)


# -- boxes, models, recipes -----------------------------------------------------------------


def _boxes(suffix: str) -> Reader:
    def make(path: Path) -> None:
        if suffix == ".csv":
            rows = "".join(f"image-{i}.jpg,20,20,110,110,0.9\n" for i in range(FACES))
            path.write_text(f"image,x0,y0,x1,y1,score\n{rows}")
        else:
            path.write_text(json.dumps({f"image-{i}.jpg": [[20, 20, 110, 110]] for i in range(3)}))

    def read(path: Path) -> None:
        from luvli.image.crop import Crop
        from luvli.image.known_boxes import BoxesFromFile

        boxes = BoxesFromFile(path)
        for i in range(FACES):
            for box in boxes(photograph(), f"image-{i}.jpg"):
                Crop.from_box(box, 64, 1.2).warp(photograph())

    mutators = mutate.TEXT if suffix == ".csv" else mutate.JSON
    return Reader(f"boxes {suffix[1:]}", suffix, make, read, mutators)


def _network() -> Any:
    import torch

    from luvli.network import build
    from luvli.network.config import NetworkConfig

    torch.manual_seed(0)
    return build(NetworkConfig(unets=1, channels=4, bn_size=1, growth=2, input_size=64)).eval()


def model_reader(kind: str) -> Reader:
    info = {"enlarge": 1.25, "calibration": {"scale": [1.5] * 68}}

    def make(path: Path) -> None:
        from luvli.network import save_model
        from luvli.prediction.export import export_onnx

        weights = path if kind == "safetensors" else path.with_suffix(".safetensors")
        save_model(weights, _network(), info)
        if kind == "onnx":
            export_onnx(weights, path)

    def read(path: Path) -> None:
        from luvli.prediction.predictor import load

        faces = load(path, threads=1).predict(photograph(), [[10, 10, 40, 40]])
        assert np.isfinite(faces[0].points).all() and np.isfinite(faces[0].covariance).all()

    return Reader(f"model {kind}", f".{kind}", make, read, (*mutate.BINARY, mutate.numbers))


def _official() -> Reader:
    def make(path: Path) -> None:
        import torch

        from luvli.network import build
        from luvli.network.config import NetworkConfig
        from luvli.network.official import to_official

        config = NetworkConfig(
            unets=1, order=0, channels=4, bn_size=1, growth=2, input_size=64, reference=True
        )
        torch.save({"state_dict": to_official(build(config))}, path)

    def read(path: Path) -> None:
        from luvli.network import load_official, save_model

        network, info = load_official(path)
        save_model(path.with_name("imported.safetensors"), network, info)

    return Reader("official", ".pth.tar", make, read)


def _checkpoint() -> Reader:
    def make(path: Path) -> None:
        import torch

        from luvli.training.checkpoint import save_checkpoint

        made = save_checkpoint(path.parent, 7, {"network": {"a": torch.ones(9)}, "step": 7}, 3)
        made.replace(path)

    def read(path: Path) -> None:
        from luvli.training.checkpoint import load_checkpoint

        load_checkpoint(path)

    return Reader("checkpoint", ".ckpt", make, read)


def _recipe() -> Reader:
    def make(path: Path) -> None:
        root = Path(__file__).parents[2] / "recipes"
        path.write_bytes((root / "quick.yaml").read_bytes())

    def read(path: Path) -> None:
        from luvli.training.recipe_files import read_recipe

        read_recipe(path)

    return Reader("recipe", ".yaml", make, read, mutate.TEXT)


def _markup() -> Reader:
    def make(path: Path) -> None:
        path.write_text(
            "name: mine5\npoints: [right eye, left eye, nose, right mouth, left mouth]\n"
            "outer_eye_corners: [0, 1]\nparts: {mouth: [3, 4]}\nclosed: []\n"
            "groups: {eyes: [0, 1], nose: [2], mouth: [3, 4]}\neyes: [[0], [1]]\n"
        )

    def read(path: Path) -> None:
        from luvli.data.sets.folder import read_markup

        read_markup(path)

    return Reader("markup.yaml", ".yaml", make, read, mutate.TEXT)


# -- videos --------------------------------------------------------------------------------


def _video(suffix: str, codec: str, sound: bool) -> Reader:
    def make(path: Path) -> None:
        from prediction.conftest import disc_image, write_video

        frames = ((i / 30, disc_image([(40.0 + i, 40, 20)], (96, 80))) for i in range(12))
        write_video(path, frames, sound=sound, codec=codec)

    def read(path: Path) -> None:
        from luvli.files import whole_file
        from luvli.prediction.video import VideoReader
        from luvli.prediction.video_writer import VideoWriter, output_suffix

        reader = VideoReader(path)
        target = path.with_name(f"copy{output_suffix(path)}")
        with whole_file(target) as made, VideoWriter(made, reader.rate, path) as writer:
            for number, frame in enumerate(reader):
                if number == 40:
                    break  # repeated packets can be many
                writer.write(frame.image, frame.time)

    return Reader(f"video {suffix[1:]}", suffix, make, read)


def _upload() -> Reader:
    """What a client sends to the server: a form with two images and boxes."""

    def make(path: Path) -> None:
        body = b""
        for number, format in enumerate(("JPEG", "PNG")):
            head = f'Content-Disposition: form-data; name="f{number}"; filename="{number}.jpg"'
            body += b"--cut\r\n" + head.encode() + b"\r\n\r\n" + encoded(format) + b"\r\n"
        boxes = b'Content-Disposition: form-data; name="boxes"\r\n\r\n[[[1, 2, 30, 40]], []]\r\n'
        path.write_bytes(body + b"--cut\r\n" + boxes + b"--cut--\r\n")

    def read(path: Path) -> None:
        from starlette.datastructures import Headers

        from luvli.image.read import read_image
        from luvli.serving.schema import parse_boxes
        from luvli.serving.settings import Limits
        from luvli.serving.upload import read_upload

        limits = Limits()
        kind = Headers({"content-type": "multipart/form-data; boundary=cut"})
        upload = read_upload(kind, path.read_bytes(), limits)
        if upload.boxes:
            parse_boxes(upload.boxes, len(upload.images), limits.max_faces)
        for image in upload.images:
            if image.refused:
                raise image.refused
            read_image(image.data)

    return Reader("upload to the server", ".form", make, read, (*mutate.BINARY, mutate.lines))


def _shard() -> Reader:
    """A tar of the cluster job."""

    def make(path: Path) -> None:
        import tarfile

        with tarfile.open(path, "w") as tar:
            for number in range(FACES):
                about = tarfile.TarInfo(f"{number}.png")
                about.size = len(encoded("PNG"))
                tar.addfile(about, io.BytesIO(encoded("PNG")))

    def read(path: Path) -> None:
        from luvli.errors import InputError
        from luvli.image.read import read_image
        from luvli.prediction.containers import read_tar_part, tar_entries
        from luvli.prediction.parts import Part

        items = [list(entry) for entry in tar_entries(str(path))]
        for _, data in read_tar_part(Part(0, "tar", str(path), len(items), items), 0):
            if isinstance(data, InputError):
                raise data
            read_image(data)

    return Reader("tar of images", ".tar", make, read)


def all_readers() -> dict[str, Reader]:
    """By name."""
    images = [_image(f) for f in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "ICO")]
    found = [
        *images, *label_readers(),
        _boxes(".csv"), _boxes(".json"), model_reader("onnx"), model_reader("safetensors"),
        _official(), _checkpoint(), _recipe(), _markup(), _video(".mp4", "libx264", True),
        _video(".mkv", "libx264", False), _video(".avi", "libx264", False), _upload(), _shard(),
        request_reader(),
    ]  # fmt: skip
    from hostile.crafted import crafted_readers

    return {reader.name: reader for reader in [*found, *crafted_readers()]}
