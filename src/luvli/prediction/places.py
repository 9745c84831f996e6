"""Files anywhere: local paths, and URIs of every store that pyarrow or fsspec opens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

from luvli.errors import InputError, OutputError, brief, require
from luvli.files import check_plain, unreadable, whole_file

GO_ON = "free some space and run the same command again; it goes on from here."
_ARROW = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
"""schemes that pyarrow opens; all others are fsspec's"""
_AT_ONCE = ("s3", "gcs", "abfs")
"""stores where an object appears whole when it is closed; elsewhere it is moved into place"""


def is_uri(place: str) -> bool:
    """Whether a place is written as a URI.

    >>> is_uri("s3://bucket/a.jpg"), is_uri("photos/a.jpg")
    (True, False)
    """
    return "://" in place


def local_path(place: str) -> str:
    """The path of a file:// URI, which may be written with %20; anything else as it is.

    >>> local_path("file:///a/b.jpg"), local_path("s3://a/b.jpg")
    ('/a/b.jpg', 's3://a/b.jpg')
    """
    path = place.removeprefix("file://")
    escaped = path != place and "%" in path and not os.path.lexists(path)
    return unquote(path) if escaped else path


def join(place: str, *names: str) -> str:
    """A place below another.

    >>> join("s3://bucket/out/", "a", "b.parquet")
    's3://bucket/out/a/b.parquet'
    """
    return "/".join((place.rstrip("/"), *names))


# -- stores ----------------------------------------------------------------------------------


def _store(place: str) -> tuple[Any, str]:
    """The pyarrow file system of a URI, and the path in it. Names in URIs are as a listing shows
    them, with spaces and all."""
    scheme, _, rest = place.partition("://")
    host, _, path = rest.partition("/")
    fs = require("pyarrow.fs", "scale")
    try:
        if scheme in _ARROW:
            files, root = _bucket(scheme, host)
            return files, f"{root.rstrip('/')}/{path}".rstrip("/") or "/"
        files, path = require("fsspec", "scale").core.url_to_fs(place)
        return fs.PyFileSystem(fs.FSSpecHandler(files)), path
    except InputError:
        raise
    except Exception as error:  # each file system has errors of its own
        raise InputError(
            f"{scheme}://{host} cannot be opened ({brief(error)}): check the address, and whether "
            f"the package for {scheme}:// is installed."
        ) from error


@lru_cache(maxsize=64)
def _bucket(scheme: str, host: str) -> tuple[Any, str]:
    """The file system of a bucket or host, which keeps its connections. Region and endpoint of S3
    come from the usual environment variables."""
    environ, options = os.environ, {}
    if scheme == "s3":
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
        if endpoint:
            kind, _, address = endpoint.rpartition("://")
            options = {"scheme": kind or "https", "endpoint_override": address}
        if region := environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION"):
            options["region"] = region
    fs = require("pyarrow.fs", "scale")
    opened: tuple[Any, str] = fs.FileSystem.from_uri(f"{scheme}://{host}/?{urlencode(options)}")
    return opened


def _infos(folder: str, which: Any) -> list[Any]:
    """What a store says about paths, or about what is right below a folder (a selector)."""
    try:
        infos: list[Any] = _store(folder)[0].get_file_info(which)
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from error
    return infos


def list_store(folder: str) -> Iterator[tuple[str, str, str]]:
    """Place, path inside the folder, and size and time of all files below a folder of a store,
    sorted folder by folder, one of which is in memory at a time; hidden files are left out."""
    fs = require("pyarrow.fs", "scale")
    start = _store(folder)[1].rstrip("/")
    deeper = [start]
    while deeper:
        infos = _infos(folder, fs.FileSelector(deeper.pop()))
        infos = sorted((i for i in infos if i.base_name[:1] != "."), key=lambda info: info.path)
        for info in infos:
            if info.is_file:
                inside = info.path[len(start) :].lstrip("/")
                yield join(folder, inside), inside, f"{info.size}-{info.mtime_ns}"
        deeper += [info.path for info in infos[::-1] if info.type == fs.FileType.Directory]


def _write_store(place: str, content: bytes) -> None:
    files, path = _store(place)
    if files.type_name.startswith(_AT_ONCE):
        with files.open_output_stream(path) as stream:
            stream.write(content)
        return
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.luvli-tmp-{os.getpid()}-{time.time_ns():x}-{name}"
    files.create_dir(folder, recursive=True)
    with files.open_output_stream(temporary) as stream:
        stream.write(content)
    remove(place)
    files.move(temporary, path)


# -- either ----------------------------------------------------------------------------------


def open_input(place: str) -> Any:
    """An open file, for reading anywhere in it; one sentence where it cannot be opened.

    Devices, pipes and folders are refused: the name may be a stranger's.
    """
    place = local_path(place)
    try:
        if is_uri(place):
            files, path = _store(place)
            return files.open_input_file(path)
        check_plain(place)
        return Path(place).open("rb")
    except OSError as error:
        raise _unreadable(place, error) from error


def read_bytes(place: str) -> bytes:
    """A file's bytes; one sentence where it cannot be read."""
    try:
        with open_input(place) as stream:
            return bytes(stream.read())
    except OSError as error:
        raise _unreadable(place, error) from error


def is_file(place: str) -> bool:
    if is_uri(place):
        return bool(_infos(place, [_store(place)[1]])[0].is_file)
    return Path(place).is_file()


def list_names(folder: str) -> set[str]:
    """Names of the files right in a folder; none where there is no folder."""
    if is_uri(folder):
        fs = require("pyarrow.fs", "scale")
        selector = fs.FileSelector(_store(folder)[1], allow_not_found=True)
        return {info.base_name for info in _infos(folder, selector) if info.is_file}
    path = Path(folder)
    return {entry.name for entry in path.iterdir()} if path.is_dir() else set()


def write_whole(place: str, content: bytes) -> None:
    """Write a file so that others see all of it or nothing, also when the writer is killed."""
    try:
        if is_uri(place):
            _write_store(place, content)
        else:
            with whole_file(place) as temporary:
                temporary.write_bytes(content)
    except (OSError, OutputError) as error:
        why = brief(error.__cause__ or error)
        raise OutputError(f"{place} could not be written ({why}): {GO_ON}") from error


def remove(place: str) -> None:
    """Remove a file where it is there."""
    if not is_uri(place):
        Path(place).unlink(missing_ok=True)
    elif is_file(place):
        files, path = _store(place)
        files.delete_file(path)


def _unreadable(place: str, error: Exception) -> InputError:
    if not is_uri(place) and isinstance(error, OSError):
        return unreadable(place, error)
    # a folder of a store is there when something is in it: what is missing may be its bucket
    if isinstance(error, FileNotFoundError) or "NO_SUCH" in str(error):
        return InputError(f"{place} does not exist: check the address.")
    return InputError(f"{place} cannot be read ({brief(error)}): check it and its permissions.")
