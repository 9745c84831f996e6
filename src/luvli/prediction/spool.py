"""Results of one video, waiting on disk until all are known; they may be many."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

from luvli.files import writing
from luvli.prediction.journal import GO_ON
from luvli.prediction.result import Result


class Spool:
    """Lines of results in a file without a name; a full disk is an `OutputError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._writing():
            self._stream = tempfile.TemporaryFile("w+", encoding="utf-8", dir=folder)  # noqa: SIM115

    def add(self, result: Result) -> None:
        with self._writing():
            self._stream.write(result.to_line() + "\n")

    def texts(self) -> Iterator[str]:
        """The lines, from the first."""
        with self._writing():  # what is still in memory
            self._stream.seek(0)
        # `yield from` would close the file when nobody asks for more
        for line in self._stream:  # noqa: UP028
            yield line

    def results(self) -> Iterator[Result]:
        for line in self.texts():
            yield Result.from_fields(json.loads(line))

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self._folder, GO_ON)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._stream.close()
        except OSError:
            if kind is None:
                raise
