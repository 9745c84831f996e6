"""Outputs that appear whole or not at all, in folders that one run at a time writes to."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Final
from unicodedata import category

from luvli.errors import InputError, OutputError

PathLike = str | os.PathLike[str]

_TEMPORARY = re.compile(r"\.luvli-tmp-(\d+)-[0-9a-f]{12}(-\w+)?(\.[^.]*)?$")
"""files that are being written: the number of the process, something random, the suffix; also what
a writer keeps beside its file in the making, such as COCO's list of images"""
_STALE_SECONDS = 24 * 3600
"""a file in the making that is older belongs to no living run, whatever its number says: the
process may have run on another machine that shares the folder"""
LOCK_NAME = ".luvli-lock"
_swept: set[str] = set()
"""folders that this process has looked through for what killed runs left"""


# -- writing ---------------------------------------------------------------------------------


@contextmanager
def whole_file(path: PathLike) -> Iterator[Path]:
    """Give a temporary path beside `path`; move it into place only if the block succeeds.

    The temporary name keeps the suffix, because image and video writers choose their
    format by it. Parent folders are made. On any error the target is left as it was.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder: give the name of a file to write.")
    with writing(target, "choose another place."):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _new_temporary(target)
    try:
        with writing(target, "free some space or choose another place."):
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)  # a writer may have replaced it by a file for its eyes alone
            with temporary.open("rb+") as stream:
                os.fsync(stream.fileno())
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing(target: PathLike, advice: str) -> Iterator[None]:
    """What goes wrong inside is one sentence about `target` that ends with what to do."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{target} could not be written ({error.strerror or error}): {advice}"
        ) from error


def _new_temporary(target: Path) -> Path:
    """An empty file beside the target, with the mode that ordinary new files have.

    Its name is short whatever the target's is: a name may be as long as the file system allows.
    The first file that a process writes into a folder takes away what killed runs left there.
    """
    folder = str(target.parent.absolute())
    if folder not in _swept:
        _swept.add(folder)
        sweep_temporaries(folder)
    path = target.with_name(f".luvli-tmp-{os.getpid()}-{secrets.token_hex(6)}{target.suffix}")
    path.touch(exist_ok=False)
    return path


def sweep_temporaries(folder: PathLike) -> int:
    """Remove what killed runs left half-written in a folder -> how many files.

    Files of processes that are still alive stay, unless they are a day old.
    """
    removed = 0
    for path in Path(folder).glob(".luvli-tmp-*"):
        match = _TEMPORARY.match(path.name)
        with contextlib.suppress(OSError):  # another run may have swept it
            if match and (_is_stale(path) or not _is_alive(int(match[1]))):
                path.unlink()
                removed += 1
    return removed


def _is_stale(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _STALE_SECONDS


def _is_alive(process: int) -> bool:
    if sys.platform == "win32":
        return True  # no cheap way to ask; such files go after a day
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass  # somebody else's
    return True


# -- one run at a time -----------------------------------------------------------------------


@contextmanager
def folder_lock(folder: PathLike) -> Iterator[None]:
    """Keep a second run out of an output folder; the kernel lets go of it when a run dies.

    Where another run holds it, `InputError` says which. The lock file disappears at the end, and
    with it the folders that were made for it, if the run wrote nothing.
    """
    place = Path(folder)
    created = [parent for parent in (place, *place.parents) if not parent.exists()]
    handle = _locked(place)
    try:
        os.ftruncate(handle, 0)
        began = time.strftime("%Y-%m-%d %H:%M:%S")
        os.write(handle, f"process {os.getpid()}, since {began}".encode())
        sweep_temporaries(place)
        yield
    finally:
        (place / LOCK_NAME).unlink(missing_ok=True)
        os.close(handle)
        with contextlib.suppress(OSError):  # something was written
            for parent in created:
                parent.rmdir()


def _locked(folder: Path) -> int:
    """The open lock file of a folder, ours alone."""
    path = folder / LOCK_NAME
    while True:
        with writing(folder, "choose another --out."):
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        if not _try_lock(handle):
            holder = os.read(handle, 200).decode("utf-8", "replace")
            os.close(handle)
            raise InputError(
                f"{folder} is being written by another run ({holder or 'unknown'}): "
                "wait for it, or choose another --out."
            )
        # the run before may have removed the very file that was opened
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)


def _try_lock(handle: int) -> bool:
    """Lock an open file without waiting; False where another process has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


# -- tables that come with the package ---------------------------------------------------------


def packaged_toml(package: str | None, name: str) -> dict[str, Any]:
    """The content of a TOML file beside the modules of a package (its `__package__`)."""
    file = resources.files(str(package)).joinpath(name)
    return tomllib.loads(file.read_text(encoding="utf-8"))


# -- text ------------------------------------------------------------------------------------


def write_text(path: PathLike, text: str) -> None:
    """Write UTF-8 text to `path`, whole or not at all; see `utf8` for names that are not."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors=NOT_UTF8)


NOT_UTF8: Final = "backslashreplace"
"""How bytes of a file's name that are not UTF-8, which Python holds as lone surrogates, are
written to text: as `\\udcff`, which is what JSON has for them."""


def utf8(text: str) -> str:
    """The same text with everything that UTF-8 cannot hold spelt out.

    >>> utf8(os.fsdecode(b"caf\\xe9.jpg"))
    'caf\\\\udce9.jpg'
    """
    return text.encode("utf-8", NOT_UTF8).decode("utf-8")


def one_line(text: str) -> str:
    """The same text for a terminal or a list: control characters, which a file's name may hold
    too, are spelt out.

    >>> one_line("a\\nb\\x1b[31m")
    'a\\\\nb\\\\x1b[31m'
    """
    return "".join(
        sign if sign.isprintable() or category(sign) == "Zs" else ascii(sign)[1:-1] for sign in text
    )


def check_plain(path: PathLike) -> None:
    """Refuse what is there but is no ordinary file: to open a pipe may wait for ever, and a
    device may have no end."""
    source = Path(path)
    try:
        mode = source.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise unreadable(source, error if isinstance(error, OSError) else None) from error
    if not stat.S_ISREG(mode):
        raise unreadable(source)


def read_text(path: PathLike, newline: str | None = None) -> str:
    """Read UTF-8 text, or say in one sentence why not; `newline` as for `open`."""
    source = Path(path)
    check_plain(source)
    try:
        with source.open(encoding="utf-8", newline=newline) as stream:
            return stream.read()
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
    missing = error is None or error.errno in (errno.ENOENT, errno.ENOTDIR)
    if missing and is_there(source):
        return InputError(f"{source} is a pipe or a device: give an ordinary file.")
    if error is None or missing:
        return InputError(f"{source} does not exist: check the path.")
    return InputError(f"{source} cannot be read ({error.strerror}): check its permissions.")


def is_there(path: Path) -> bool:
    """Whether something has this name, which may be a stranger's and any text."""
    try:
        return path.exists()
    except OSError:  # too long a name, or in a folder that may not be entered
        return False
