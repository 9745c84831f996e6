"""Files anywhere: folders, and every file system that pyarrow or fsspec opens by its URI."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from luvli.errors import InputError, require
from luvli.files import unreadable, whole_file

T = TypeVar("T")

ATTEMPTS = 6
"""how often a read or write that failed on the way is tried"""
FIRST_PAUSE = 0.25
"""seconds before the second attempt; each further pause is twice as long"""
_ARROW = ("file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
"""schemes that pyarrow opens; all others are fsspec's"""
_QUERY = re.compile(r"(.*?)(\?\w+=.*)?", re.DOTALL)
"""a path, and what is said about its file system"""
_AT_ONCE = ("s3", "gcs", "abfs")
"""stores where an object appears whole when it is closed; elsewhere it is moved into place"""


class Found(NamedTuple):
    """A file of a listing."""

    place: str
    """as it is opened again: a local path, or a URI"""
    inside: str
    """its path inside the folder that was listed"""
    size: int


def is_uri(place: str) -> bool:
    """Whether a place is written as a URI.

    >>> is_uri("s3://bucket/a.jpg"), is_uri("photos/a.jpg")
    (True, False)
    """
    return "://" in place


def open_place(place: str) -> tuple[Any, str]:
    """The pyarrow file system of a place, and the path in it. Names in URIs are as a listing shows
    them, with spaces and all; only file:// may be written with %20."""
    fs = require("pyarrow.fs", "scale")
    if not is_uri(place):
        return fs.LocalFileSystem(), os.path.abspath(place)  # noqa: PTH100
    scheme, _, rest = place.partition("://")
    if scheme not in _ARROW:
        return _open_root(place, "")
    rest, query = _QUERY.fullmatch(rest).groups()  # type: ignore[union-attr]
    host, _, path = rest.partition("/")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    files, root = _open_root(f"{scheme}://{host}/{query or ''}", endpoint)
    inside = f"{root.rstrip('/')}/{path}".rstrip("/") or "/"
    if scheme == "file" and "%" in inside and not os.path.lexists(inside):
        inside = unquote(inside)
    return files, inside


@lru_cache(maxsize=64)
def _open_root(place: str, endpoint: str) -> tuple[Any, str]:
    """The file system of a bucket or host, which keeps its connections. `endpoint`: of S3."""
    fs = require("pyarrow.fs", "scale")
    scheme = place.split("://")[0]
    try:
        if scheme == "s3":
            return _open_s3(fs, place, endpoint)
        if scheme in _ARROW:
            opened: tuple[Any, str] = fs.FileSystem.from_uri(place)
            return opened
        fsspec = require("fsspec", "scale")
        files, path = fsspec.core.url_to_fs(place)
        return fs.PyFileSystem(fs.FSSpecHandler(files)), path
    except InputError:
        raise
    except Exception as error:  # each file system has errors of its own
        raise InputError(
            f"{place} cannot be opened ({_why(error)}): check the address, and whether the "
            f"package for {scheme}:// is installed."
        ) from error


def _open_s3(fs: Any, place: str, endpoint: str) -> tuple[Any, str]:
    """S3 with credentials, region and endpoint from the usual environment variables."""
    parts = urlsplit(place)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    endpoint = query.get("endpoint_override") or endpoint
    if not endpoint:
        opened: tuple[Any, str] = fs.FileSystem.from_uri(place)
        return opened
    scheme, _, host = endpoint.rpartition("://")
    region = query.get("region") or os.environ.get("AWS_REGION")
    files = fs.S3FileSystem(
        endpoint_override=host,
        scheme=query.get("scheme") or scheme or "https",
        region=region or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=5),
    )
    return files, parts.netloc


def join(place: str, *names: str) -> str:
    """A place below another; a URI keeps its query.

    >>> join("s3://bucket/out?region=eu", "a", "b.parquet")
    's3://bucket/out/a/b.parquet?region=eu'
    """
    head, mark, query = place.partition("?") if is_uri(place) else (place, "", "")
    return "/".join((head.rstrip("/"), *names)) + mark + query


def steadily(work: Callable[[], T], place: str) -> T:
    """`work`, tried again when the way to the files fails for a while (503, slow down, resets).

    What is missing or not allowed is not tried again.
    """
    pause = FIRST_PAUSE
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
            raise
        except OSError as error:
            local = not is_uri(place) or place.startswith("file:")
            if local or attempt == ATTEMPTS or "NO_SUCH" in str(error):
                raise
            time.sleep(pause)
            pause *= 2
    raise AssertionError("unreachable")


def read_bytes(place: str, offset: int = 0, size: int | None = None) -> bytes:
    """A file's bytes, or a range of them; one sentence where it cannot be read."""
    files, path = open_place(place)

    def read() -> bytes:
        with files.open_input_file(path) as stream:
            if size is None and not offset:
                return bytes(stream.read())
            stream.seek(offset)
            return bytes(stream.read(size))

    try:
        if not is_uri(place):  # the plain way, which names what is wrong with a file
            with Path(place).open("rb") as stream:
                stream.seek(offset)
                return stream.read() if size is None else stream.read(size)
        return steadily(read, place)
    except OSError as error:
        raise _unreadable(place, error) from error


def _unreadable(place: str, error: OSError) -> InputError:
    if not is_uri(place):
        return unreadable(place, error)
    if isinstance(error, FileNotFoundError):
        return InputError(f"{place} does not exist: check the path.")
    return InputError(f"{place} cannot be read ({_why(error)}): check it and its permissions.")


def exists(place: str) -> bool:
    """Whether there is a file."""
    files, path = open_place(place)
    kind = _look(lambda: files.get_file_info([path])[0].type, place)
    return bool(kind == require("pyarrow.fs", "scale").FileType.File)


def _look(work: Callable[[], T], place: str) -> T:
    """What a file system says about a place; one sentence where it does not answer."""
    try:
        return steadily(work, place)
    except OSError as error:
        raise _unreadable(place, error) from error


def list_files(folder: str) -> Iterator[Found]:
    """All files below a folder, sorted folder by folder; hidden ones (. and _) are left out.

    One folder at a time is in memory, not the whole listing.
    """
    fs = require("pyarrow.fs", "scale")
    files, start = open_place(folder)

    def below(path: str) -> Iterator[Found]:
        found = steadily(lambda: files.get_file_info(fs.FileSelector(path)), folder)
        deeper = []
        for info in sorted(found, key=lambda info: info.path):
            if info.base_name.startswith((".", "_")):
                continue
            inside = info.path[len(start) :].lstrip("/")
            if info.type == fs.FileType.Directory:
                deeper.append(info.path)
            elif info.type == fs.FileType.File:
                yield Found(join(folder, inside), inside, info.size)
        for path in deeper:
            yield from below(path)

    try:
        yield from below(start.rstrip("/") if is_uri(folder) else start)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        missing = isinstance(error, FileNotFoundError) or "NO_SUCH_BUCKET" in str(error)
        why = "does not exist" if missing else f"cannot be listed ({_why(error)})"
        raise InputError(f"{folder} {why}: check the address and its permissions.") from error


def list_names(folder: str) -> set[str]:
    """Names of the files right in a folder; none where there is no folder."""
    fs = require("pyarrow.fs", "scale")
    files, path = open_place(folder)
    wanted = fs.FileSelector(path, allow_not_found=True)
    found = _look(lambda: files.get_file_info(wanted), folder)
    return {info.base_name for info in found if info.type == fs.FileType.File}


def write_whole(place: str, content: bytes) -> None:
    """Write a file so that others see all of it or nothing, also when the writer is killed."""
    files, path = open_place(place)
    if files.type_name == "local":
        with whole_file(path) as temporary:
            temporary.write_bytes(content)
        return

    def write() -> None:
        if files.type_name.startswith(_AT_ONCE):
            with files.open_output_stream(path) as stream:
                stream.write(content)
            return
        folder, _, name = path.rpartition("/")
        files.create_dir(folder, recursive=True)
        temporary = f"{folder}/.luvli-tmp-{os.getpid()}-{time.time_ns():x}-{name}"
        with files.open_output_stream(temporary) as stream:
            stream.write(content)
        if files.get_file_info([path])[0].type == require("pyarrow.fs", "scale").FileType.File:
            files.delete_file(path)
        files.move(temporary, path)

    try:
        steadily(write, place)
    except OSError as error:
        raise InputError(
            f"{place} could not be written ({_why(error)}): check that the place exists, may be "
            "written and has room; the same command goes on from here."
        ) from error


def remove_folder(folder: str) -> None:
    """Remove a folder with all that is in it, where it is there."""
    files, path = open_place(folder)
    fs = require("pyarrow.fs", "scale")
    if files.get_file_info([path])[0].type == fs.FileType.Directory:
        files.delete_dir(path)


def _why(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:160]
