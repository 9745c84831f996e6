"""WebDataset tars: which images they hold and where, so that a range can be read alone."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from itertools import takewhile

from luvli.errors import InputError
from luvli.image.read import IMAGE_SUFFIXES
from luvli.scale.parts import Part
from luvli.scale.places import open_place, read_bytes, steadily

Entry = tuple[str, int, int]
"""name, offset and size of an image in a tar"""
BUFFER = 1 << 20
WINDOW = 8 << 20
"""bytes that are read at a time"""


def tar_parts(place: str, size: int) -> list[list[Entry]]:
    """The images of a tar in pieces of `size`; only headers are looked at."""
    try:
        entries = steadily(lambda: _entries(place), place)
    except FileNotFoundError as error:
        raise InputError(f"{place} does not exist: check the path.") from error
    except (tarfile.TarError, OSError) as error:
        raise InputError(f"{place} is not a whole tar ({error}): copy it again.") from error
    return [entries[i : i + size] for i in range(0, len(entries), size)]


def _entries(place: str) -> list[Entry]:
    files, path = open_place(place)
    with (
        files.open_input_file(path) as stream,
        tarfile.open(fileobj=stream, mode="r:", bufsize=BUFFER) as tar,
    ):
        return [
            (member.name, member.offset_data, member.size)
            for member in tar
            if member.isfile() and member.name.lower().endswith(IMAGE_SUFFIXES)
        ]


def read_tar_part(part: Part, start: int) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the images of a part; neighbours are read together."""
    entries = part.items[start:]
    while entries:
        first = entries[0][1]
        inside = (e[1] + e[2] - first <= WINDOW for e in entries)
        near = entries[: max(1, sum(takewhile(bool, inside)))]
        content = read_bytes(part.place, first, near[-1][1] + near[-1][2] - first)
        for name, offset, size in near:
            yield f"{part.place}#{name}", content[offset - first : offset - first + size]
        entries = entries[len(near) :]
