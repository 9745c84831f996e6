"""Files anywhere: local paths, and URIs of every store that pyarrow or fsspec opens."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from luvli.errors import InputError, OutputError, require
from luvli.files import check_plain, unreadable, whole_file

GO_ON = "free some space and run the same command again; it goes on from here."
ATTEMPTS = 8
"""how often pyarrow asks S3 before it gives up, with growing pauses"""
_ARROW = ("file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
"""schemes that pyarrow opens; all others are fsspec's"""
_QUERY = re.compile(r"(.*?)(\?\w+=.*)?", re.DOTALL)
"""a path, and what is said about its file system"""
_AT_ONCE = ("s3", "gcs", "abfs")
"""stores where an object appears whole when it is closed; elsewhere it is moved into place"""


class StoredFile(NamedTuple):
    """A file of a listing."""

    place: str
    """as it is opened again: a local path, or a URI"""
    inside: str
    """its path inside the folder that was listed"""
    stamp: str
    """size and time of the last change"""


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
        files, path = require("fsspec", "scale").core.url_to_fs(place)
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
    scheme, _, host = (query.get("endpoint_override") or endpoint).rpartition("://")
    region = query.get("region") or os.environ.get("AWS_REGION")
    if not host:
        region = region or fs.resolve_s3_region(parts.netloc)
    files = fs.S3FileSystem(
        endpoint_override=host or None,
        scheme=query.get("scheme") or scheme or "https",
        region=region or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )
    return files, parts.netloc


def join(place: str, *names: str) -> str:
    """A place below another; a URI keeps its query.

    >>> join("s3://bucket/out?region=eu", "a", "b.parquet")
    's3://bucket/out/a/b.parquet?region=eu'
    """
    head, mark, query = place.partition("?") if is_uri(place) else (place, "", "")
    return "/".join((head.rstrip("/"), *names)) + mark + query


def open_input(place: str) -> Any:
    """An open file, for reading anywhere in it; one sentence where it cannot be opened.

    Devices, pipes and folders are refused: the name may be a stranger's.
    """
    try:
        if not is_uri(place):
            check_plain(place)
            return Path(place).open("rb")
        files, path = open_place(place)
        if files.type_name == "local":
            check_plain(path)
        return files.open_input_file(path)
    except OSError as error:
        raise _unreadable(place, error) from error


def read_bytes(place: str) -> bytes:
    """A file's bytes; one sentence where it cannot be read."""
    try:
        with open_input(place) as stream:
            return bytes(stream.read())
    except OSError as error:
        raise _unreadable(place, error) from error


def _unreadable(place: str, error: OSError) -> InputError:
    if not is_uri(place):
        return unreadable(place, error)
    if isinstance(error, FileNotFoundError) or "NO_SUCH" in str(error):
        return InputError(f"{place} does not exist: check the path.")
    return InputError(f"{place} cannot be read ({_why(error)}): check it and its permissions.")


def is_file(place: str) -> bool:
    """Whether there is a file."""
    if not is_uri(place):
        return os.path.isfile(place)  # noqa: PTH113
    files, path = open_place(place)
    try:
        kind = files.get_file_info([path])[0].type
    except OSError as error:
        raise _unreadable(place, error) from error
    return bool(kind == require("pyarrow.fs", "scale").FileType.File)


def list_store(folder: str) -> Iterator[StoredFile]:
    """All files below a folder of a store, sorted folder by folder; hidden ones are left out.

    One folder at a time is in memory, not the whole listing.
    """
    fs = require("pyarrow.fs", "scale")
    files, start = open_place(folder)

    def below(path: str) -> Iterator[StoredFile]:
        folders = []
        for info in sorted(files.get_file_info(fs.FileSelector(path)), key=lambda info: info.path):
            if info.base_name.startswith("."):
                continue
            inside = info.path[len(start) :].lstrip("/")
            if info.type == fs.FileType.Directory:
                linked = files.type_name == "local" and os.path.islink(info.path)  # noqa: PTH114
                folders += [] if linked else [info.path]
            elif info.type == fs.FileType.File:
                yield StoredFile(join(folder, inside), inside, f"{info.size}-{info.mtime_ns}")
        for path in folders:
            yield from below(path)

    try:
        yield from below(start.rstrip("/"))
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        missing = isinstance(error, FileNotFoundError) or "NO_SUCH_BUCKET" in str(error)
        why = "does not exist" if missing else f"cannot be read ({_why(error)})"
        raise InputError(f"{folder} {why}: check the address and its permissions.") from error


def list_names(folder: str) -> set[str]:
    """Names of the files right in a folder; none where there is no folder."""
    if not is_uri(folder):
        try:
            return set(os.listdir(folder))  # noqa: PTH208
        except FileNotFoundError:
            return set()
    fs = require("pyarrow.fs", "scale")
    files, path = open_place(folder)
    try:
        infos = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
    except OSError as error:
        raise _unreadable(folder, error) from error
    return {info.base_name for info in infos if info.type == fs.FileType.File}


def write_whole(place: str, content: bytes) -> None:
    """Write a file so that others see all of it or nothing, also when the writer is killed."""
    try:
        if not is_uri(place):
            with whole_file(place) as temporary:
                temporary.write_bytes(content)
        else:
            _write_store(place, content)
    except (OSError, OutputError) as error:
        cause = error.__cause__ if isinstance(error, OutputError) else error
        raise OutputError(f"{place} could not be written ({_why(cause or error)}): {GO_ON}") from (
            error
        )


def _write_store(place: str, content: bytes) -> None:
    files, path = open_place(place)
    if files.type_name == "local":
        write_whole(path, content)
        return
    if files.type_name.startswith(_AT_ONCE):
        with files.open_output_stream(path) as stream:
            stream.write(content)
        return
    folder, _, name = path.rpartition("/")
    files.create_dir(folder, recursive=True)
    temporary = f"{folder}/.luvli-tmp-{os.getpid()}-{time.time_ns():x}-{name}"
    with files.open_output_stream(temporary) as stream:
        stream.write(content)
    if is_file(place):
        files.delete_file(path)
    files.move(temporary, path)


def remove(place: str) -> None:
    """Remove a file, or a folder with all that is in it, where it is there."""
    fs = require("pyarrow.fs", "scale")
    files, path = open_place(place)
    kind = files.get_file_info([path])[0].type
    if kind == fs.FileType.Directory:
        files.delete_dir(path)
    elif kind == fs.FileType.File:
        files.delete_file(path)


def _why(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:160]
