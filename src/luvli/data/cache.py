"""Where things that can be made again are kept, and folders that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from luvli.files import writing


def cache_root() -> Path:
    """`$LUVLI_CACHE`, or `luvli` in the user's cache folder. Deleting it loses nothing."""
    chosen = os.environ.get("LUVLI_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("luvli", appauthor=False)


def file_state(path: Path) -> str:
    """What tells a file from its other versions: place, size and date; for keys of the cache.

    A missing file has a state too: whoever opens it will say so.
    """
    try:
        status = path.stat()
    except OSError:
        return f"{path.resolve()} missing"
    return f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"


@contextmanager
def whole_folder(
    target: Path, advice: str = "set LUVLI_CACHE to a folder with space"
) -> Iterator[Path]:
    """Give a temporary folder beside `target`; move it into place only if the block succeeds.

    If another process was faster, its folder stays and ours goes. `advice` ends the message where
    nothing can be written.
    """
    with writing(target, f"{advice}."):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            yield temporary
            temporary.chmod(0o755)
            try:
                temporary.rename(target)
            except OSError:
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def unpacked_folder(name: str, source: Path, unpack: Callable[[Path], None]) -> Path:
    """The cache folder that `unpack` fills, once for each version of the file `source`."""
    key = hashlib.sha256(file_state(source).encode()).hexdigest()[:24]
    folder = cache_root() / f"{name}-{key}"
    if not folder.is_dir():
        with whole_folder(folder) as temporary:
            unpack(temporary)
    return folder


def allocate(path: Path) -> None:
    """Reserve the disk space of a sparse file before it is mapped into memory.

    Otherwise a disk that runs full ends the process with a bus error, not an exception.
    """
    size = path.stat().st_size
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as stream:
            os.posix_fallocate(stream.fileno(), 0, size)
    elif shutil.disk_usage(path.parent).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
