"""The journal of a run: what is finished is safe, and the next run goes on from there.

A text file in the output folder. The first line tells the settings of the run, each further
line is one finished image or video. A line counts when it is whole; one that was cut off
by a crash or a full disk is dropped. When all is done, results are written from the journal
and it disappears.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from luvli.errors import InputError
from luvli.files import unreadable, write_text

NAME = ".luvli-unfinished.jsonl"
FINISHED = ".luvli-finished.json"


class Journal:
    """Lines of finished work; `in` tells whether a name was finished by an earlier run."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], fresh: bool = False) -> None:
        """`fresh` drops what another run left unfinished."""
        self.path = folder / NAME
        self._done: set[bytes] = set()
        self._whole = 0
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
        """How many names were finished before."""
        return len(self._done)

    def __contains__(self, name: str) -> bool:
        return _digest(name) in self._done

    def add(self, line: str) -> None:
        """Note something finished: a line of JSON with its name under `image`."""
        try:
            self._write(line)
        except OSError as error:
            raise InputError(
                f"{self.path.parent} could not be written ({error.strerror}): free some space "
                "and run the same command again; it goes on from here."
            ) from error

    def lines(self) -> Iterator[dict[str, Any]]:
        """All finished work, oldest first, without the settings."""
        return map(json.loads, self.texts())

    def texts(self) -> Iterator[bytes]:
        """The same, as it was written."""
        self._stream.flush()
        with self.path.open("rb") as stream:
            next(stream)
            yield from stream

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

    def _write(self, line: str) -> None:
        self._stream.write(line.encode("utf-8", "surrogateescape") + b"\n")
        self._stream.flush()

    def _is_of(self, wanted: str) -> bool:
        with self.path.open("rb") as stream:
            return stream.readline().strip() == wanted.encode()

    def _take_up(self, wanted: str) -> None:
        try:
            with self.path.open("rb") as stream:
                first = stream.readline()
                if not first.endswith(b"\n"):
                    return  # it was cut off before it began
                if first.decode().strip() != wanted:
                    raise InputError(
                        f"{self.path.parent} holds an unfinished run with other settings: "
                        f"repeat that command to finish it, delete {self.path.name} in it to "
                        "drop it, give --overwrite, or choose another --out."
                    )
                self._whole = len(first)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    self._done.add(_digest(json.loads(line)["image"]))
                    self._whole += len(line)
        except (ValueError, KeyError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{self.path} is damaged: delete it and start again.") from error
        except OSError as error:
            raise unreadable(self.path, error) from error


class Finished:
    """The note that a finished run leaves: what it was, so that another does not mix with it."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.path = folder / FINISHED
        self._identity = json.dumps(settings, sort_keys=True)
        try:
            before = self.path.read_text(encoding="utf-8") if self.path.is_file() else None
        except (OSError, UnicodeDecodeError):
            before = ""
        self.other = before is not None and before != self._identity
        """whether another run's results are in the folder"""
        self.same = before is not None and not self.other
        """whether this very run was finished before; its files may be written again"""

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
        write_text(self.path, self._identity)


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
