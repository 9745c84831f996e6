"""Files anywhere: local paths, and URIs of every store that pyarrow or fsspec opens."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from luvli.errors import InputError, OutputError, require
from luvli.files import check_plain, unreadable, whole_file

GO_ON = "free some space and run the same command again; it goes on from here."
ATTEMPTS = 8
"""how often pyarrow asks S3 before it gives up, with growing pauses"""
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
    """A place below another; a URI keeps its query.

    >>> join("s3://bucket/out?region=eu", "a", "b.parquet")
    's3://bucket/out/a/b.parquet?region=eu'
    """
    head, mark, query = place.partition("?") if is_uri(place) else (place, "", "")
    return "/".join((head.rstrip("/"), *names)) + mark + query


def _open_place(place: str) -> tuple[Any, str]:
    """The pyarrow file system of a place, and the path in it; None for a local file. Names in URIs
    are as a listing shows them, with spaces and all."""
    path = local_path(place)
    if not is_uri(path):
        return None, path
    scheme, _, rest = path.partition("://")
    if scheme not in _ARROW:
        return _open_root(scheme, path, "")
    bare, query = re.fullmatch(r"(.*?)(\?\w+=.*)?", rest, re.DOTALL).groups()  # type: ignore[union-attr]
    host, _, path = bare.partition("/")
    files, root = _open_root(scheme, host, query or "")
    return files, f"{root.rstrip('/')}/{path}".rstrip("/") or "/"


@lru_cache(maxsize=64)
def _open_root(scheme: str, host: str, query: str) -> tuple[Any, str]:
    """The file system of a bucket or host, which keeps its connections."""
    fs = require("pyarrow.fs", "scale")
    try:
        if scheme == "s3":
            return _open_s3(fs, host, query), host
        if scheme in _ARROW:
            opened: tuple[Any, str] = fs.FileSystem.from_uri(f"{scheme}://{host}/{query}")
            return opened
        files, path = require("fsspec", "scale").core.url_to_fs(host)
        return fs.PyFileSystem(fs.FSSpecHandler(files)), path
    except InputError:
        raise
    except Exception as error:  # each file system has errors of its own
        raise InputError(
            f"{scheme}://{host.removeprefix(f'{scheme}://')} cannot be opened ({_why(error)}): "
            f"check the address, and whether the package for {scheme}:// is installed."
        ) from error


def _open_s3(fs: Any, bucket: str, query: str) -> Any:
    """S3 with credentials, region and endpoint from the usual environment variables."""
    about = {key: values[-1] for key, values in parse_qs(query.removeprefix("?")).items()}
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    endpoint = next(filter(None, map(os.environ.get, variables)), "")
    scheme, _, host = about.get("endpoint_override", endpoint).rpartition("://")
    region = about.get("region") or os.environ.get("AWS_REGION")
    if not host and not region:
        region = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        endpoint_override=host or None,
        scheme=about.get("scheme") or scheme or "https",
        region=region or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )


def open_input(place: str) -> Any:
    """An open file, for reading anywhere in it; one sentence where it cannot be opened.

    Devices, pipes and folders are refused: the name may be a stranger's.
    """
    files, path = _open_place(place)
    try:
        if files is None:
            check_plain(path)
            return Path(path).open("rb")
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
    if not is_uri(local_path(place)):
        return unreadable(local_path(place), error)
    # a folder of a store is there when something is in it: what is missing may be its bucket
    if isinstance(error, FileNotFoundError) or "NO_SUCH" in str(error):
        return InputError(f"{place} does not exist: check the address.")
    return InputError(f"{place} cannot be read ({_why(error)}): check it and its permissions.")


def is_file(place: str) -> bool:
    files, path = _open_place(place)
    if files is None:
        return Path(path).is_file()
    return bool(_infos(place, [path])[0].is_file)


def _infos(place: str, which: Any) -> list[Any]:
    """What a store says about a path, or about what is right below a folder (a selector)."""
    try:
        infos: list[Any] = _open_place(place)[0].get_file_info(which)
    except (OSError, ValueError) as error:
        raise _unreadable(place, error if isinstance(error, OSError) else OSError(error)) from error
    return infos


def list_store(folder: str) -> Iterator[tuple[str, str, str]]:
    """Place, path inside the folder, and size and time of all files below a folder of a store,
    sorted folder by folder, one of which is in memory at a time; hidden files are left out."""
    fs = require("pyarrow.fs", "scale")
    start = _open_place(folder)[1].rstrip("/")
    deeper = [start]
    while deeper:
        infos = _infos(folder, fs.FileSelector(deeper.pop()))
        infos = sorted((i for i in infos if i.base_name[:1] != "."), key=lambda info: info.path)
        for info in infos:
            if info.is_file:
                inside = info.path[len(start) :].lstrip("/")
                yield join(folder, inside), inside, f"{info.size}-{info.mtime_ns}"
        deeper += [info.path for info in infos[::-1] if info.type == fs.FileType.Directory]


def list_names(folder: str) -> set[str]:
    """Names of the files right in a folder; none where there is no folder."""
    files, path = _open_place(folder)
    if files is None:
        return {entry.name for entry in Path(path).iterdir()} if Path(path).is_dir() else set()
    selector = require("pyarrow.fs", "scale").FileSelector(path, allow_not_found=True)
    return {info.base_name for info in _infos(folder, selector) if info.is_file}


def write_whole(place: str, content: bytes) -> None:
    """Write a file so that others see all of it or nothing, also when the writer is killed."""
    files, path = _open_place(place)
    try:
        if files is None:
            with whole_file(path) as temporary:
                temporary.write_bytes(content)
        else:
            _write_store(files, path, content)
    except (OSError, OutputError) as error:
        cause = error.__cause__ if isinstance(error, OutputError) else error
        raise OutputError(f"{place} could not be written ({_why(cause or error)}): {GO_ON}") from (
            error
        )


def _write_store(files: Any, path: str, content: bytes) -> None:
    folder, _, name = path.rpartition("/")
    at_once = files.type_name.startswith(_AT_ONCE)
    target = path if at_once else f"{folder}/.luvli-tmp-{os.getpid()}-{time.time_ns():x}-{name}"
    if not at_once:
        files.create_dir(folder, recursive=True)
    with files.open_output_stream(target) as stream:
        stream.write(content)
    if not at_once:
        if files.get_file_info(path).is_file:
            files.delete_file(path)
        files.move(target, path)


def remove(place: str) -> None:
    """Remove a file where it is there."""
    files, path = _open_place(place)
    if files is None:
        Path(path).unlink(missing_ok=True)
    elif is_file(place):
        files.delete_file(path)


def _why(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:160]
