"""Files that are read with a check: what is wrong with one is a sentence that names it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from luvli.data.record import FaceRecord
from luvli.errors import InputError, brief, require
from luvli.files import PathLike, check_plain, read_text, unreadable, write_text

Parsed = TypeVar("Parsed")
_Row = TypeVar("_Row")


@contextmanager
def expecting(path: PathLike, what: str, advice: str = "export it again") -> Iterator[None]:
    """Whatever goes wrong inside is one sentence: that the file is not `what`, why, and the
    `advice`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # each parser has a kind for each damage
        if isinstance(error, OSError) and error.errno:
            raise unreadable(path, error) from error
        raise InputError(f"{path} is not {what} ({_reason(error)}): {advice}.") from error


@contextmanager
def naming(path: PathLike, place: str) -> Iterator[None]:
    """What is wrong inside with a face is one sentence that names its file and its place there."""
    try:
        yield
    except (ValueError, TypeError) as error:  # InputError is a ValueError, so is pydantic's
        why = str(error) if isinstance(error, InputError) else f"{_reason(error)}."
        raise InputError(f"{path}, {place}: {why}") from error


def _reason(error: Exception) -> str:
    """What an error says; of pydantic's the first complaint, and where."""
    if not isinstance(error, ValidationError):
        return brief(error)
    first = error.errors()[0]
    return f"at {'.'.join(map(str, first['loc'])) or 'the top level'}, {first['msg'].lower()}"


def read_each(
    path: PathLike,
    what: str,
    rows: Iterable[tuple[object, _Row]],
    read: Callable[[_Row], FaceRecord],
) -> list[FaceRecord]:
    """The face of each row of a file; `what` a row is called, with its name, where it is bad."""
    records = []
    for name, row in rows:
        with naming(path, f"{what} {name}"):
            records.append(read(row))
    return records


def load_json(path: PathLike) -> Any:
    """The content of a JSON file."""
    text = read_text(path)
    with expecting(path, "valid JSON"):
        return json.loads(text)


def parse_json(path: PathLike, content: type[Parsed], what: str) -> Parsed:
    """Read a JSON file into a type with pydantic, or say which field is wrong."""
    loaded = load_json(path)
    with expecting(path, what):
        return TypeAdapter(content).validate_python(loaded)


def parse_yaml(text: str, where: str, what: str) -> Any:
    """The content of a YAML text of at most a megabyte and 20,000 values, aliases counted each
    time; `where` it stands and `what` it should be are for messages.

    >>> parse_yaml("a: [1, 2]", "x.yaml", "recipe")
    {'a': [1, 2]}
    """
    yaml = require("yaml", "evaluate")
    max_bytes, max_values = 1_000_000, 20_000
    if len(text) > max_bytes:
        raise InputError(f"{where} is larger than {max_bytes:,} bytes: that is no {what}.")
    try:
        content = yaml.safe_load(text)
        size = _count(content, max_values)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # impossible dates among them
        why = " ".join(str(error).split())[:300]
        raise InputError(f"{where} is not valid YAML: {why}.") from error
    if size > max_values:
        raise InputError(f"{where} holds more than {max_values:,} values: that is no {what}.")
    return content


def _count(value: Any, limit: int) -> int:
    """Values inside nested lists and mappings; stops soon after `limit`."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    total = 1
    for item in inner:
        if total <= limit:
            total += _count(item, limit - total)
    return total


def load_arrays(path: PathLike) -> dict[str, NDArray[Any]]:
    """The arrays of an npz by their names, or the one of an npy as `points`; nothing is run."""
    source = Path(path)
    check_plain(source)
    with expecting(source, "a readable numpy file", "save plain number arrays"):
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as members:
                check_unpacked(source, sum(member.file_size for member in members.infolist()))
        content = np.load(source, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"points": content}
        with content:
            return {name: np.asarray(content[name]) for name in content.files}


def check_unpacked(path: Path, size: int) -> None:
    """Refuse a file that says that it unpacks to a hundred times its own size, and to much."""
    if size > max(256 << 20, 100 * path.stat().st_size):
        raise InputError(
            f"{path} would unpack to {size >> 20:,} MB, more than 100 times its size: write it "
            "again without repeated rows."
        )


def parse_xml(path: PathLike, tag: str, otherwise: str) -> ET.Element:
    """The first element of an XML file, which must be a `tag`, without document type, which could
    name other files."""
    text = read_text(path)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError(f"{path} has a document type, which is not read: export it again.")
    with expecting(path, "valid XML"):
        root = ET.fromstring(text)
    if root.tag != tag:
        raise InputError(f"{path} is not {otherwise}")
    return root


def write_xml(path: PathLike, root: ET.Element) -> None:
    """Write an XML file, whole or not at all."""
    ET.indent(root)
    write_text(path, ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n")
