"""The journal of a run: what is finished is safe, and the next run goes on from there.

A text file in the output folder. The first line tells the settings of the run, each further
line is one finished image or video, or the name of a file that is about to be written. A line
is a checksum, a stamp (size and time of the image's file, `-` for none) and JSON. Lines that
were cut off by a crash or a full disk, or that changed since, are dropped, and their images
done again; so are images that were changed, while those that are gone are left out. When all is
done, results are written from the journal and it disappears.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from luvli.errors import InputError
from luvli.files import unreadable, write_text, writing

NAME = ".luvli-unfinished.jsonl"
FINISHED = ".luvli-finished.json"
FAILED = "failed.txt"
"""one line for each file that could not be done"""
GO_ON = "free some space and run the same command again; it goes on from here."
_NOTES = (b'{"begins":', b'{"leaves":')


class Journal:
    """Lines of finished work; `confirm` tells what an earlier run has finished."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], fresh: bool = False) -> None:
        """`fresh` drops what another run left unfinished."""
        self.path = folder / NAME
        self._done: dict[bytes, bytes] = {}
        """by the digest of the name: the stamp of its file when it was done"""
        self._confirmed: set[bytes] = set()
        self._begun: set[bytes] = set()
        self.left: set[str] = set()
        """files of others that an earlier run met and left as they were"""
        self._whole = 0
        """bytes that earlier runs wrote"""
        wanted = json.dumps(settings, sort_keys=True)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self.path.is_file() and not (fresh and not self._is_of(wanted)):
                self._take_up(wanted)
            self._stream = self.path.open("ab")
            self._stream.truncate(self._whole)
            if not self._whole:
                self._write(wanted)
        except OSError as error:
            raise InputError(
                f"{folder} cannot be written ({error.strerror}): choose another --out."
            ) from error

    @property
    def resumed(self) -> int:
        """How many names were finished before, and are unchanged."""
        return len(self._confirmed)

    def confirm(self, name: str) -> bool:
        """Whether an earlier run has finished this file, as it is now. Earlier results that are
        never asked for are left out of the results."""
        digest = _digest(name)
        if digest not in self._done or self._done[digest] != file_stamp(name):
            return False
        self._confirmed.add(digest)
        return True

    def begins(self, file: str) -> None:
        """Note that this run is about to write a file that was not there."""
        self.add(json.dumps({"begins": file}))
        self._begun.add(_digest(file))

    def leaves(self, file: str) -> None:
        """Note that a file of somebody else stands where this run wanted to write."""
        self.add(json.dumps({"leaves": file}))

    def has_begun(self, file: str) -> bool:
        """Whether this run, or the interrupted one that it continues, writes this file."""
        return _digest(file) in self._begun

    def add(self, line: str, stamp: bytes = b"-") -> None:
        """Note something finished: a line of JSON with its name under `image`, and the stamp of
        its file when it was read."""
        with writing(self.path.parent, GO_ON):
            self._write(line, stamp)

    def lines(self) -> Iterator[dict[str, Any]]:
        """All finished work, oldest first, without the settings."""
        return map(json.loads, self.texts())

    def texts(self) -> Iterator[bytes]:
        """The same, as it was written."""
        self._stream.flush()
        with self.path.open("rb") as stream:
            place = len(next(stream))
            for line in stream:
                old = place < self._whole
                place += len(line)
                content = _checked(line)
                if content is None or content[1].startswith(_NOTES):
                    continue
                text = content[1]
                if old and _digest(json.loads(text)["image"]) not in self._confirmed:
                    continue
                yield text

    def close(self) -> None:
        """Leave the journal for the next run."""
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError:
            pass  # a full disk was reported when the line was added
        finally:
            with contextlib.suppress(OSError):  # closing tries once more to write it
                self._stream.close()

    def remove(self) -> None:
        """The run is finished."""
        self._stream.close()
        self.path.unlink(missing_ok=True)

    def _write(self, line: str, stamp: bytes = b"-") -> None:
        content = stamp + b" " + line.encode("utf-8", "surrogateescape")
        self._stream.write(b"%08x %b\n" % (zlib.crc32(content), content))
        self._stream.flush()

    def _is_of(self, wanted: str) -> bool:
        with self.path.open("rb") as stream:
            first = _checked(stream.readline())
        return first is not None and first[1] == wanted.encode()

    def _take_up(self, wanted: str) -> None:
        try:
            with self.path.open("rb") as stream:
                first = stream.readline()
                if not first.endswith(b"\n"):
                    return  # it was cut off before it began
                head = _checked(first)
                if head is None:
                    raise InputError(
                        f"{self.path} is damaged: delete it to start again, or choose another "
                        "--out."
                    )
                if head[1] != wanted.encode():
                    raise InputError(
                        f"{self.path.parent} holds an unfinished run with other settings: "
                        f"repeat that command to finish it, delete {self.path.name} in it to "
                        "drop it, give --overwrite, or choose another --out."
                    )
                self._whole = len(first)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    self._whole += len(line)
                    self._take_line(_checked(line))
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _take_line(self, content: tuple[bytes, bytes] | None) -> None:
        if content is None:
            return  # changed by whatever changed it: to be done again
        stamp, text = content
        fields = json.loads(text)
        if "begins" in fields:
            self._begun.add(_digest(fields["begins"]))
        elif "leaves" in fields:
            self.left.add(fields["leaves"])
        else:
            self._done[_digest(fields["image"])] = stamp


def _checked(line: bytes) -> tuple[bytes, bytes] | None:
    """Stamp and JSON of a line that is as it was written; None for any other."""
    checksum, _, content = line.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(content):
        return None
    stamp, _, text = content.partition(b" ")
    return stamp, text


def file_stamp(path: str) -> bytes:
    """What tells a file from the one that stood there before; `-` where there is none."""
    try:
        about = os.stat(path)  # noqa: PTH116  # once for each of a million names
    except (OSError, ValueError):
        return b"-"
    return b"%d/%d" % (about.st_size, about.st_mtime_ns)


class Finished:
    """The note that a finished run leaves: what it was, so that another does not mix with it,
    and which files it left as they were because others had written them."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.path = folder / FINISHED
        self._identity = json.dumps(settings, sort_keys=True)
        before, left = _note(self.path)
        if before is not None and before != self._identity and _only_failures(folder):
            before = self._identity  # a mistyped name made no results that could be mixed
        self.other = before is not None and before != self._identity
        """whether another run's results are in the folder"""
        self.same = before is not None and not self.other
        """whether this very run was finished before; its files may be written again"""
        self.left = set(left) if self.same else set()
        """names of files of others"""

    def check(self, results: Path | None) -> None:
        """Refuse a folder whose results are of another run, or of somebody else."""
        if self.other:
            raise InputError(
                f"{self.path.parent} holds the results of another run: choose another --out, or "
                "give --overwrite to replace them."
            )
        if results is not None and not self.same and results.exists():
            raise InputError(
                f"{results} was there before: choose another --out, or give --overwrite to "
                "replace it."
            )

    def note(self) -> None:
        write_text(self.path, "\n".join([self._identity, *map(json.dumps, sorted(self.left))]))


def _only_failures(folder: Path) -> bool:
    """Whether a finished run left nothing but the list of what it could not read."""
    try:
        return {path.name for path in folder.iterdir() if path.name[0] != "."} <= {FAILED}
    except OSError:
        return False


def _note(path: Path) -> tuple[str | None, list[str]]:
    """The identity in a note, None where there is none and "" where it cannot be read."""
    try:
        if not path.is_file():
            return None, []
        identity, *left = path.read_text(encoding="utf-8").splitlines()
        return identity, [str(json.loads(name)) for name in left]
    except (OSError, ValueError, RecursionError):
        return "", []


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
