"""Inputs of the prediction job that damage alone would never make: Parquet columns of any type,
tar members that lie about themselves, scripts in place of videos, names that do harm."""

from __future__ import annotations

import contextlib
import io
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import luvli
from hostile.reader import encoded, records
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.files import one_line
from luvli.image.read import read_image
from luvli.prediction.containers import parquet_parts
from luvli.prediction.inputs import Input
from luvli.prediction.plan import OutputStems
from luvli.prediction.rows import Row
from luvli.prediction.settings import SUFFIXES, JobSettings
from luvli.prediction.video import VideoReader
from luvli.prediction.writers import json_record, write_results

NAMES = ("a.png", "$x_{$.png", "nul\0.png", "lone \ud800.png", "10:30.png", "file:a.png", "=1+1",
         "http://a/b.png", "a\nb.png", "../../up.png", "~2.png", "x" * 300, "", "con", "[red].png",
         "%s.png", "\x1b[31m.png", "a/b/c.png", "\u202egnp.png")  # fmt: skip
COLUMNS = ("image", "path", "points", "covariance", "visibility", "box", "score", "status", "frame",
           "confidence", "markup", "likelihood", "accepted", "occlusion", "time")  # fmt: skip
SCRIPTS = ("ffconcat version 1.0\nfile {}\n", "#EXTM3U\n#EXTINF:9,\n{}\n", "concat:{}|{}",
           "v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\n", "<MPD><BaseURL>{}</BaseURL>",
           "[playlist]\nFile1={}\n", "RIFF{}", "subfile,,start,0,end,9,,:{}")  # fmt: skip


def parquet_of_any_types(rng: random.Random, _: bytes) -> bytes:
    """Columns with the names that are looked for, each of any type."""
    rows, image = rng.choice((0, 1, 3)), encoded("PNG")
    values: list[Any] = [
        pa.array(["/dev/zero", "..", "\0"][:rows]), pa.array([image, b"", b"x"][:rows]),
        pa.array([1, 2**62, None][:rows]), pa.array([float("nan"), 1e308, -1.0][:rows]),
        pa.array([{"bytes": image, "path": "p"}, {"bytes": None, "path": None}, None][:rows]),
        pa.array([[("a", 1)], [], None][:rows], pa.map_(pa.string(), pa.int64())),
        pa.array([[[1.0], None], [], None][:rows]), pa.array([[1.0] * 136, [None] * 4, []][:rows]),
        pa.array([[2.0] * 272] * rows), pa.array([True, None, False][:rows]), pa.nulls(rows),
        pa.array([1, 2, 3][:rows], pa.timestamp("s")), pa.array(["face", "no", None][:rows]),
        pa.array(["a", "b", "a"][:rows]).dictionary_encode(),
    ]  # fmt: skip
    names = rng.sample(COLUMNS, rng.randint(1, len(COLUMNS)))
    table = pa.table({name: rng.choice(values) for name in names})
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=rng.choice((1, 2, 1000)))
    return stream.getvalue()


def lying_tar(rng: random.Random, _: bytes) -> bytes:
    """Members that are sparse, huge, links or devices, between two images."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as out:
        for number in range(3):
            about = tarfile.TarInfo(f"{number}.png")
            about.size = len(encoded("PNG"))
            out.addfile(about, io.BytesIO(encoded("PNG")))
    content = bytearray(stream.getvalue())
    step = 512 + -(-len(encoded("PNG")) // 512) * 512
    start = step * rng.choice((0, 1, 2))
    header = content[start : start + 512]
    header[156:157] = rng.choice((b"S", b"0", b"1", b"2", b"3", b"x", b"g", b"L", b"K", b"7"))
    size = rng.choice((0, 1, 10**6, 2**33, 10**15, 2**62))
    field = b"\x80\0\0\0" + size.to_bytes(8, "big") if size >= 2**33 else b"%011o\0" % size
    for place in rng.sample((124, 386, 398, 483), rng.randint(1, 4)):
        header[place : place + 12] = field
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    content[start : start + 512] = header
    return bytes(content)


def script(rng: random.Random, _: bytes) -> bytes:
    """A list of other files under the name of a video."""
    place = rng.choice(("/etc/passwd", "neighbour.mkv", "http://127.0.0.1:9/a", "/dev/zero"))
    return rng.choice(SCRIPTS).replace("{}", place).encode()


def names(rng: random.Random, _: bytes) -> bytes:
    chosen = rng.sample(NAMES, 4)
    return json.dumps(["".join(rng.sample(chosen, 2)) if rng.random() < 0.3 else name
                       for name in chosen]).encode()  # fmt: skip


def write_image_column(path: Path) -> None:
    pq.write_table(pa.table({"image": [encoded("PNG")], "key": ["a"]}), path)


def predict_parquet(path: Path) -> None:
    for part in parquet_parts([Input(str(path), path.name)], JobSettings("out")):
        contents = list(part.contents(0))
        assert len(contents) == part.count == len(part.other_columns())
        for _, content in contents:
            if not isinstance(content, InputError):
                with contextlib.suppress(InputError):
                    read_image(content)


def read_film(path: Path) -> None:
    if path.read_bytes()[:4] != b"\x1aE\xdf\xa3":  # not Matroska
        raise AssertionError(f"{len(list(VideoReader(path)))} frames of a script")


def write_names(path: Path) -> None:
    path.write_text('["a.png"]')


def write_under_names(path: Path) -> None:
    """Results of faces in images of these names, in every format, and their reading."""
    points = np.stack([records()[0].points])
    face = Faces(points, np.tile(np.eye(2), (1, 68, 1, 1)), np.ones((1, 68)))
    given = [name for name in json.loads(path.read_bytes()) if isinstance(name, str)]
    stems = OutputStems()
    made = [stems.stem(Input(name, name.replace("\0", "") or "x")) for name in given]
    assert len(set(made)) == len(made)
    rows = [Row(name, face) for name in given] + [Row(name, face[:0], name) for name in given]
    for row in rows:
        assert json.loads(json_record(row))["image"] == row.image
        assert one_line(row.image).isprintable() or not row.image
    for format, suffix in SUFFIXES.items():
        target = path.with_name(f"names-{format}{suffix}")
        write_results(target, rows, format)
        with contextlib.suppress(InputError):
            assert len(luvli.read(target)) == len(given)
