"""Outputs that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from luvli.errors import InputError

PathLike = str | os.PathLike[str]


@contextmanager
def whole_file(path: PathLike) -> Iterator[Path]:
    """Give a temporary path beside `path`; move it into place only if the block succeeds.

    The temporary name keeps the suffix, because image and video writers choose their
    format by it. Parent folders are made. On any error the target is left as it was.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder: give the name of a file to write.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent
        )
    except OSError as error:
        raise InputError(
            f"{target} cannot be written ({error.strerror}): choose another place."
        ) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush(temporary)
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes private files; outputs are ordinary ones
        temporary.replace(target)
    except OSError as error:
        raise InputError(
            f"{target} could not be written ({error.strerror or error}): "
            "free some space or choose another place."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: PathLike, text: str) -> None:
    """Write UTF-8 text to `path`, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_text(path: PathLike) -> str:
    """Read UTF-8 text, or say in one sentence why not."""
    source = Path(path)
    try:
        return source.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} is not a text file: check that it is what its name says."
        ) from error
    except OSError as error:
        raise unreadable(source, error) from error


def unreadable(path: PathLike, error: OSError | None = None) -> InputError:
    """The sentence for a file that cannot be opened."""
    source = Path(path)
    if source.is_dir():
        return InputError(f"{source} is a folder: give a file inside it.")
    if error is None or not source.exists():
        return InputError(f"{source} does not exist: check the path.")
    return InputError(f"{source} cannot be read ({error.strerror}): check its permissions.")


def _flush(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
